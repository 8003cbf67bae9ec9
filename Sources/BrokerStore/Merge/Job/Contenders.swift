internal import BrokerModel
internal import BrokerStaging
internal import HeapModule

/// The objects of a job that may be rejected for unique values, and their claims.
///
/// An object is listed here when its value is claimed twice or has a holder in the store, or when it gives up a value
/// that another object claims. So a job of many records with one conflict needs memory for one conflict only.
struct Contenders {
    struct UniqueList {
        let entity: Int
        let attributes: [Int]
    }

    struct Object: Hashable {
        let entity: Int
        let row: Int
    }

    private(set) var lists: [UniqueList] = []
    private(set) var objects: [Object] = []
    /// Indexed by object.
    private(set) var claims: [[UniqueConflicts.Claim]] = []
    private var numbers: [Object: Int] = [:]
    /// The memory allowance refused memory, so the claims are not complete.
    private(set) var isRefused = false

    /// Approximate bytes of a claim with its object, its rejection and the tables of ``UniqueConflicts``.
    private static let bytesPerClaim = 600

    init(_ merge: inout JobMerge) throws(StoreError) {
        for (entity, table) in merge.rows.tables.enumerated() where table != nil {
            for list in merge.merger.entities[entity].entity.unique {
                lists.append(UniqueList(entity: entity, attributes: list))
            }
        }
        var traces = ClaimTraces()
        for (entity, table) in merge.rows.tables.enumerated() {
            guard let table, let reader = try ValueReader(lists, entity, merge) else { continue }
            for row in 0..<table.rowCount {
                for want in try reader.wants(row, table, merge) where want.old != want.new {
                    let isHeld = try want.new.hasNull ? false : reader.isHeld(want.new, of: want.list)
                    traces.add(Object(entity: entity, row: row), want.list, want.old, want.new, isHeld: isHeld)
                }
                isRefused = !merge.memory.hold(traces.byteCount)
                if isRefused { return }
            }
        }
        for object in traces.contended where numbers[object] == nil {
            numbers[object] = objects.count
            objects.append(object)
        }
        let nestings = Dictionary(
            merge.rows.nestings.map { ($0.offset, $0) }, uniquingKeysWith: { first, _ in first })
        var reader: (entity: Int, ValueReader)?
        for object in objects {
            let table = merge.rows.tables[object.entity]!
            if reader?.entity != object.entity {
                reader = try ValueReader(lists, object.entity, merge).map { (object.entity, $0) }
            }
            guard let (_, reader) = reader else { continue }
            let wants = try reader.wants(object.row, table, merge)
            isRefused = !merge.memory.take(wants.count * Self.bytesPerClaim)
            if isRefused { return }
            claims.append(
                wants.map { want in
                    let places = table.claims(of: lists[want.list].attributes, row: object.row)
                    return UniqueConflicts.Claim(
                        list: want.list, claimedAt: places.last!, old: want.old, new: want.new,
                        within: places.flatMap { enclosing($0, nestings) })
                })
        }
    }

    /// The objects whose records enclose the record at `offset`.
    private func enclosing(_ offset: UInt32, _ nestings: [UInt32: StagedNesting]) -> [Int] {
        var enclosing: [Int] = []
        var next = nestings[offset]
        while let nesting = next {
            if let object = numbers[Object(entity: nesting.entity, row: nesting.row)] { enclosing.append(object) }
            next = nestings[nesting.aroundOffset]
        }
        return enclosing
    }

    // MARK: - Holders

    /// The staged row of the stored object that has this value of this list; -1 when the job does not name that object;
    /// nil when no object has the value.
    private func holder(_ list: Int, _ key: StoredKey, _ merge: inout JobMerge) throws(StoreError) -> Int? {
        let entity = lists[list].entity
        let holder = try merge.merger.entities[entity].holder(of: lists[list].attributes)
        key.bind(to: holder, from: 1)
        defer { holder.reset() }
        guard try holder.step() else { return nil }
        return try merge.stagedRow(entity, holder, from: 0) ?? -1
    }

    /// The value, if a stored object has it and does not give it up.
    ///
    /// - Returns: the value, and whether the job's rows set no attribute of the list.
    func retained(
        _ list: Int, _ key: StoredKey, _ merge: inout JobMerge
    ) throws(StoreError) -> (value: OccupiedValue.Value, isOutside: Bool)? {
        guard let row = try holder(list, key, &merge) else { return nil }
        let (entity, attributes) = (lists[list].entity, lists[list].attributes)
        let value = OccupiedValue.Value(entity: entity, attributes: attributes, key: key)
        guard row >= 0 else { return (value, true) }
        if let object = numbers[Object(entity: entity, row: row)],
            claims[object].contains(where: { $0.list == list && $0.isGivingUp })
        {
            return nil
        }
        let table = merge.rows.tables[entity]!
        let isNew = try merge.newAttributes(ofRow: row, table)
        let identity = merge.merger.plan.model.entities[table.concreteEntity(of: row)].identity
        let isOutside = attributes.allSatisfy { attribute in
            table.row(row)[attribute].kind == .absent && !isNew.contains(attribute) || identity.contains(attribute)
        }
        return (value, isOutside)
    }

    /// Each of the values with the first claim on it.
    func claimed(_ values: Set<OccupiedValue.Value>, _ merge: JobMerge) -> [OccupiedValue] {
        guard !values.isEmpty else { return [] }
        var occupied: [OccupiedValue] = []
        for (object, claims) in zip(objects, claims) {
            for claim in claims where claim.isMoving {
                let list = lists[claim.list]
                let value = OccupiedValue.Value(entity: list.entity, attributes: list.attributes, key: claim.new)
                guard values.contains(value) else { continue }
                let kind = merge.rows.tables[object.entity]!.concreteEntity(of: object.row)
                occupied.append(OccupiedValue(value: value, claimant: kind, claimedAt: Int(claim.claimedAt)))
            }
        }
        return occupied
    }
}

/// The value that a row would give its object in one unique list.
private struct Want {
    let list: Int
    let old: StoredKey?
    let new: StoredKey
}

/// Reads the stored values of one entity's objects, and the values that the job would give them.
private struct ValueReader {
    private let lists: [(number: Int, attributes: [Int])]
    private let attributes: [Int]
    private let values: Statement
    /// Keyed by the number of the list: the statement that finds the object with a value.
    private let holders: [Int: Statement]
    private let entity: Int

    /// Nil when the entity has no unique list.
    init?(_ all: [Contenders.UniqueList], _ entity: Int, _ merge: borrowing JobMerge) throws(StoreError) {
        lists = all.indices.filter { all[$0].entity == entity }.map { ($0, all[$0].attributes) }
        guard !lists.isEmpty else { return nil }
        attributes = Set(lists.flatMap(\.attributes)).sorted()
        let statements = merge.merger.entities[entity]
        values = try statements.values(of: attributes)
        var holders: [Int: Statement] = [:]
        for (number, attributes) in lists { holders[number] = try statements.holder(of: attributes) }
        self.holders = holders
        self.entity = entity
    }

    func isHeld(_ key: StoredKey, of list: Int) throws(StoreError) -> Bool {
        let holder = holders[list]!
        key.bind(to: holder, from: 1)
        defer { holder.reset() }
        return try holder.step()
    }

    /// The values of a row that is new or sets an attribute of a unique list.
    func wants(_ row: Int, _ table: FrozenTable, _ merge: borrowing JobMerge) throws(StoreError) -> [Want] {
        let staged = table.row(row)
        merge.bindKey(ofRow: row, entity, to: values, from: 1)
        defer { values.reset() }
        let exists = try values.step()
        // An object that becomes an instance of a subentity takes the defaults of its new attributes.
        let added = try merge.newAttributes(ofRow: row, table)
        if exists, attributes.allSatisfy({ staged[$0].kind == .absent && !added.contains($0) }) { return [] }
        let old = Dictionary(
            uniqueKeysWithValues: attributes.enumerated().map { ($1, exists ? values.cell($0) : .null) })
        let forms = merge.merger.forms
        var wants: [Want] = []
        for (number, list) in lists {
            // An object retains the values that the job does not name, even if its records are rejected.
            guard !exists || list.contains(where: { staged[$0].kind != .absent || added.contains($0) }) else {
                continue
            }
            let new = list.map { column -> Cell in
                if staged[column].kind != .absent { return staged[column] }
                return exists && !added.contains(column)
                    ? old[column]!
                    : merge.merger.plan.defaultCell(entity: table.concreteEntity(of: row), attribute: column) ?? .null
            }
            wants.append(
                Want(
                    list: number, old: try exists ? forms.key(list.map { old[$0]! }, of: entity, list) : nil,
                    new: try forms.key(new, of: entity, list)))
        }
        return wants
    }
}

/// The changes of unique values of a job, as hashes, which suffice to find the few possible conflicts.
private struct ClaimTraces {
    private struct Trace {
        let object: Contenders.Object
        /// 0 when there is none.
        let old: Int
        let new: Int
        let isHeld: Bool
    }

    private var traces: [Trace] = []
    /// Keyed by hash: whether more than one object claims the value.
    private var claimed: [Int: Bool] = [:]

    var byteCount: Int { 2 * traces.count * (MemoryLayout<Trace>.stride + 32) }

    mutating func add(_ object: Contenders.Object, _ list: Int, _ old: StoredKey?, _ new: StoredKey, isHeld: Bool) {
        func hash(_ key: StoredKey?) -> Int {
            guard let key, !key.hasNull else { return 0 }
            var hasher = Hasher()
            hasher.combine(list)
            hasher.combine(key)
            return hasher.finalize()
        }
        let trace = Trace(object: object, old: hash(old), new: hash(new), isHeld: isHeld)
        traces.append(trace)
        if trace.new != 0 { claimed[trace.new] = claimed[trace.new] != nil }
    }

    /// In the order of addition; an object may occur twice.
    var contended: [Contenders.Object] {
        traces.filter { trace in
            trace.isHeld || claimed[trace.new] == true || claimed[trace.old] != nil
        }.map(\.object)
    }
}

/// Decides which objects of one staging are rejected for their unique values. A pure value: the caller reads the store.
///
/// An object claims a value of a list of unique attributes when the job would give it one that it does not have. Values
/// must be unique only at the end of the job, so a value that another object of the job gives up can be claimed.
///
/// 1. While an object claims a value that another object retains, the first such claim in the text is lost.
/// 2. Then, of the claims on a value that an earlier claim takes, the first in the text is lost, and rule 1 applies again.
///
/// An object that loses a claim is rejected: it retains the values that it had, and its other claims do not count. An object
/// with a claim inside a record of a rejected object is undecided: the next staging shows what is left of its claims.
///
/// Invariants
///  1. A rejection is never undone, so every staging but the last rejects an object.
///  2. Each claim is examined a constant number of times.
struct UniqueConflicts {
    /// One object's value of one list, before the job and after it.
    struct Claim {
        let list: Int
        /// The offset of the record that claims the value.
        let claimedAt: UInt32
        /// Nil for an object that is new.
        let old: StoredKey?
        let new: StoredKey
        /// Objects, by their indices in `objects`, whose records enclose the claim.
        let within: [Int]

        /// A value with NULL in it is never the same as another.
        var isMoving: Bool { old != new && !new.hasNull }

        /// The object gives up the value that it had, for another one or for NULL.
        var isGivingUp: Bool { if let old { old != new && !old.hasNull } else { false } }
    }

    private enum State { case included, rejected, undecided }

    private struct ListedValue: Hashable {
        let list: Int
        let key: StoredKey
    }

    private struct Claimant {
        let object: Int
        let list: Int
        let value: Int
    }

    /// By object.
    private var states: [State]
    /// Claims on values, in the order of the text.
    private var claims: [Claimant] = []
    /// By value: the indices of its claims.
    private var claimants: [[Int]] = []
    /// By value: the object that takes it.
    private var owners: [Int?] = []
    /// By object: the values that it gives up and that others claim.
    private var givenUp: [[Int]]
    /// By object: objects with claims inside its records.
    private var enclosed: [[Int]]
    /// Claims on values that other objects retain.
    private var lost = Heap<Int>()
    /// By object, the list for which it is rejected.
    private(set) var rejected: [Int: Int] = [:]

    /// - Parameters:
    ///   - objects: what each object claims and gives up; objects without claims may be among them.
    ///   - isRetained: whether an object of the store that does not give it up has that value of that list.
    init<Failure: Error>(
        _ objects: [[Claim]], isRetained: (Int, StoredKey) throws(Failure) -> Bool
    ) throws(Failure) {
        states = Array(repeating: .included, count: objects.count)
        givenUp = Array(repeating: [], count: objects.count)
        enclosed = Array(repeating: [], count: objects.count)
        var moving: [(object: Int, claim: Claim)] = []
        for (object, own) in objects.enumerated() {
            for claim in own where claim.isMoving || claim.isGivingUp {
                for other in Set(claim.within) where other != object { enclosed[other].append(object) }
                if claim.isMoving { moving.append((object, claim)) }
            }
        }
        // All claims at one offset are claims of one object, in the order of the lists.
        moving.sort { ($0.claim.claimedAt, $0.object, $0.claim.list) < ($1.claim.claimedAt, $1.object, $1.claim.list) }
        var values: [ListedValue: Int] = [:]
        for (object, claim) in moving {
            let value = values[ListedValue(list: claim.list, key: claim.new), default: values.count]
            if value == values.count {
                values[ListedValue(list: claim.list, key: claim.new)] = value
                claimants.append([])
            }
            claimants[value].append(claims.count)
            claims.append(Claimant(object: object, list: claim.list, value: value))
        }
        owners = Array(repeating: nil, count: values.count)
        for (value, number) in values where try isRetained(value.list, value.key) {
            lost.insert(contentsOf: claimants[number])
        }
        for (object, own) in objects.enumerated() {
            for claim in own where claim.isGivingUp {
                if let value = values[ListedValue(list: claim.list, key: claim.old!)] { givenUp[object].append(value) }
            }
        }
    }

    mutating func settle() {
        rejectLosers()
        for claim in claims {
            guard states[claim.object] == .included else { continue }
            if let owner = owners[claim.value], states[owner] == .included {
                reject(claim)
                rejectLosers()
            } else {
                owners[claim.value] = claim.object
            }
        }
    }

    private mutating func rejectLosers() {
        while let claim = lost.popMin() {
            if states[claims[claim].object] == .included { reject(claims[claim]) }
        }
    }

    private mutating func reject(_ claim: Claimant) {
        let object = claim.object
        states[object] = .rejected
        rejected[object] = claim.list
        for other in enclosed[object] where states[other] == .included { states[other] = .undecided }
        for value in givenUp[object] { lost.insert(contentsOf: claimants[value]) }
    }
}
