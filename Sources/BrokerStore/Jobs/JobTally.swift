internal import BrokerJSON
internal import BrokerModel
internal import BrokerStaging

/// The net change of each object over a whole job: one object change for each.
struct JobTally {
    /// The state of a first step's staged row whose object is in the net changes, too: those count.
    private static let recorded: UInt8 = 255
    /// The keys of each entity and change in the answer to a dry run: as many as a person reads.
    static let exampleCount = 10
    /// Bytes of all of them, as long as no single key is longer.
    private static let exampleBytes = 32 << 10

    enum ObjectChange {
        case inserted, updated, deleted, unchanged

        /// The changes whose keys are reported, with their names in the contract.
        static let reported: [(word: String, change: ObjectChange)] = [
            ("inserted", .inserted), ("updated", .updated), ("deleted", .deleted),
        ]

        /// That of a staged row whose object has the change.
        var state: MergeTally.RowState? {
            switch self {
            case .inserted: .inserted
            case .updated: .updated
            case .deleted, .unchanged: nil
            }
        }
    }

    private struct RecordedChange {
        let change: ObjectChange
        let entry: NetChanges.Entry
    }

    private struct KeyRoom {
        var count = Int.max
        /// No key is written when the whole text has more bytes.
        var bytes = Int.max

        mutating func take(after json: JSONWriter) -> Bool {
            guard count > 0, json.count <= bytes else { return false }
            count -= 1
            return true
        }
    }

    private let run: JobRun
    private let base: SetMerge?
    private let history: NetChanges?
    private let model: Model
    private let entities: [EntityStatements]
    /// By entity and staged row, the first step's states, with ``recorded`` for rows that the net changes report.
    private var states: [[UInt8]]
    private var changedOutside: [Int: Set<Int64>]
    private var recordedChanges: [[RecordedChange]]
    /// By entity, the number of deleted objects, also of those made again; without owned ones that no owner names.
    private(set) var deletions: [Int: Int] = [:]
    /// By a hierarchy's table, the concrete entities of the first step's rows; read where the job does not determine them.
    private var concreteEntities: [Int: [Int]] = [:]
    /// By concrete entity, the row numbers of the hierarchies' objects among those that changed beside the staged rows.
    private var hierarchyNumbers: [Int: Set<Int64>] = [:]

    init(_ run: JobRun) throws(StoreError) {
        self.run = run
        (base, history) = (run.base, run.history)
        model = run.merger.plan.model
        entities = run.merger.entities
        states = entities.indices.map { [base] entity in
            guard let base, let table = base.rows.tables[entity] else { return [] }
            return Array(UnsafeBufferPointer(start: base[entity].states, count: table.rowCount))
        }
        changedOutside = base?.changedOutside ?? [:]
        recordedChanges = Array(repeating: [], count: entities.count)
        for (entity, count) in history?.deletedCounts ?? [:] {
            let others = count - (history?.unnamedCounts[entity] ?? 0)
            if others > 0 { deletions[entity] = others }
        }
        for entry in history?.entries ?? [] {
            let before = takeBaseState(entry)
            let existed = before.map { !$0.isInserted } ?? (entry.original != .absent)
            if existed, entry.wasDeleted { deletions[originalConcreteEntity(entry), default: 0] += 1 }
            guard let change = self.change(entry, existed: existed, before) else { continue }
            let concreteEntity = change == .deleted ? originalConcreteEntity(entry) : entry.concreteEntity
            recordedChanges[concreteEntity].append(RecordedChange(change: change, entry: entry))
        }
        guard let base else { return }
        try addLinks(base)
        try readConcreteEntities(base)
    }

    // MARK: - Changes

    private struct BaseState {
        var isInserted = false
        /// The step changed its links in link tables.
        var isLinkChanged = false
        var namesLinks = false
    }

    /// Takes the first step's effect on the entry's object, which the net changes count from now on; nil without one.
    private mutating func takeBaseState(_ entry: NetChanges.Entry) -> BaseState? {
        // A later step inserted the row: the object that the first step named by this key has been renamed since.
        guard let base, entry.original != .absent else { return nil }
        if let row = base.row(of: entry.originalKey, entry.entity) {
            defer { states[entry.entity][row] = Self.recorded }
            return BaseState(
                isInserted: states[entry.entity][row] == MergeTally.RowState.inserted.rawValue,
                isLinkChanged: base[entry.entity].linkStates![row] == MergeTally.RowState.updated.rawValue,
                namesLinks: base.rows.tables[entry.entity]!.namings[row].namesLinks)
        }
        return changedOutside[entry.entity]?.remove(entry.originalNumber).map { _ in BaseState() }
    }

    private func change(_ entry: NetChanges.Entry, existed: Bool, _ before: BaseState?) -> ObjectChange? {
        switch (existed, entry.number != nil) {
        case (false, true): return .inserted
        case (true, false): return .deleted
        case (false, false): return nil
        case (true, true):
            if before?.namesLinks ?? false || entry.namesLinks,
                history!.hasOtherLinks(
                    entry.entity, entry.key, isBaseChanged: before?.isLinkChanged ?? false)
            {
                return .updated
            }
            return isRowSame(entry) ? .unchanged : .updated
        }
    }

    private func isRowSame(_ entry: NetChanges.Entry) -> Bool {
        guard let original = history?.baseOriginals[entry.originalLocation] else {
            return entry.original == .untouched || entry.original == .content(entry.content)
        }
        return entry.original != .untouched && entry.content == original.content
    }

    private func originalConcreteEntity(_ entry: NetChanges.Entry) -> Int {
        history?.baseOriginals[entry.originalLocation]?.concreteEntity ?? entry.originalConcreteEntity
    }

    /// Objects of the first step that no later step touched, and whose records name links in link tables, are updated if
    /// they have other links at the end.
    private mutating func addLinks(_ base: SetMerge) throws(StoreError) {
        let unchanged = MergeTally.RowState.unchanged.rawValue
        for case let table? in base.rows.tables {
            let entity = table.entityIndex
            for row in 0..<table.rowCount where states[entity][row] == unchanged {
                let isChanged = base[entity].linkStates![row] != unchanged
                if let history {
                    guard isChanged || table.namings[row].namesLinks else { continue }
                    let key = try base.key(of: row, table)
                    guard history.hasOtherLinks(entity, key, isBaseChanged: isChanged) else { continue }
                } else if !isChanged {
                    continue
                }
                states[entity][row] = MergeTally.RowState.updated.rawValue
            }
        }
    }

    // MARK: - Hierarchies

    private mutating func readConcreteEntities(_ base: SetMerge) throws(StoreError) {
        for case let table? in base.rows.tables where model.isInHierarchy(table.entityIndex) {
            let entity = table.entityIndex
            var read: [Int] = []
            for row in 0..<table.rowCount {
                var concreteEntity = table.concreteEntity(of: row)
                let isKnown =
                    states[entity][row] == MergeTally.RowState.inserted.rawValue
                    || states[entity][row] == Self.recorded || model.subentities(of: concreteEntity).count == 1
                if !isKnown, let object = try entities[entity].find(base.key(of: row, table)) {
                    concreteEntity = object.concreteEntity
                }
                read.append(concreteEntity)
            }
            concreteEntities[entity] = read
        }
        for entity in model.tableEntities where model.isInHierarchy(entity) {
            let find = try entities[entity].concreteEntityOfRow()
            for number in changedOutside[entity] ?? [] {
                guard let name = try find.first(number, read: { $0.text(0) }) else { continue }
                hierarchyNumbers[model.index(ofEntity: name) ?? entity, default: []].insert(number)
            }
        }
    }

    /// The first step's rows of the entity's own objects that have a state, in their staged order.
    private func stagedRows(_ entity: Int, _ table: FrozenTable, in state: MergeTally.RowState) -> [Int] {
        let own = concreteEntities[table.entityIndex]
        return (0..<table.rowCount).lazy.map { table.order[$0] }.filter { row in
            states[table.entityIndex][row] == state.rawValue && (own.map { $0[row] == entity } ?? true)
        }
    }

    /// The entity's own objects among the rows that changed beside the staged ones.
    private func numbersChangedOutside(_ entity: Int) -> Set<Int64> {
        (model.isInHierarchy(entity) ? hierarchyNumbers : changedOutside)[entity] ?? []
    }

    // MARK: - Counts

    func outcome() throws(StoreError) -> Outcome {
        var outcome = Outcome(run.reported)
        let rejected = run.reported.rejectedCounts
        let touched = Set(history?.entries.map(\.entity) ?? [])
        for (index, statements) in entities.enumerated() {
            let counts = counts(index, rejected: rejected[statements.name] ?? 0)
            let isTouched = base?.rows.tables[index] != nil || touched.contains(index)
            guard isTouched && !model.isInHierarchy(index) || counts != ChangeCounts() else { continue }
            outcome.changes.append((statements.name, counts))
        }
        outcome.changes.sort { $0.entity < $1.entity }
        if run.job.terms.wantsKeys { outcome.keys = try keys(of: outcome.changes, KeyRoom(), omitsEmpty: false) }
        return outcome
    }

    private func counts(_ entity: Int, rejected: Int) -> ChangeCounts {
        var counts = ChangeCounts(rejected: rejected)
        let table = model.topmost(of: entity)
        let own = concreteEntities[table]
        for (row, state) in states[table].enumerated()
        where state != Self.recorded && own.map({ $0[row] == entity }) ?? true {
            counts.add(state)
        }
        counts.updated += numbersChangedOutside(entity).count + (history?.changedNumbers[entity]?.count ?? 0)
        counts.deleted += history?.deletedCounts[entity] ?? 0
        for object in recordedChanges[entity] {
            switch object.change {
            case .inserted: counts.inserted += 1
            case .updated: counts.updated += 1
            case .deleted: counts.deleted += 1
            case .unchanged: counts.unchanged += 1
            }
        }
        return counts
    }

    // MARK: - Keys

    /// The keys for the feed: as ``Outcome/keys``, without empty lists and objects. Nil when nothing changed, or too much.
    func feedKeys(of changes: [(entity: String, counts: ChangeCounts)]) throws(StoreError) -> [UInt8]? {
        let changed = changes.filter { $0.counts.hasChanges }
        let counted = history?.changedNumbers.values.reduce(0) { $0 + $1.count } ?? 0
        let lookups = counted + (run.merger.hasRenamed ? recordedChanges.reduce(0) { $0 + $1.count } : 0)
        guard !changed.isEmpty, lookups <= FeedKeys.maximumLookups, history?.countedKeys?.isComplete ?? true else {
            return nil
        }
        let room = KeyRoom(bytes: FeedKeys.maximumBytesOfJob)
        let keys = try keys(of: changed, room, omitsEmpty: true, former: try formerKeys())
        return keys.count <= FeedKeys.maximumBytesOfJob ? keys : nil
    }

    /// As ``Outcome/keys``, with a few keys in each list, and without empty lists and objects.
    func examples(of changes: [(entity: String, counts: ChangeCounts)]) throws(StoreError) -> [UInt8] {
        try keys(
            of: changes.filter(\.counts.hasChanges), KeyRoom(count: Self.exampleCount, bytes: Self.exampleBytes),
            omitsEmpty: true)
    }

    /// The contract's `keys`: by entity the inserted, updated and deleted objects. Objects of the first step come
    /// first, in the order of its rows, then the others in the order of their changes.
    private func keys(
        of changed: [(entity: String, counts: ChangeCounts)], _ room: KeyRoom, omitsEmpty: Bool,
        former: [[(entity: Int, key: StoredKey)]]? = nil
    ) throws(StoreError) -> [UInt8] {
        var writer = JSONWriter(capacity: 128)
        try writer.object { json throws(StoreError) in
            for (name, counts) in changed {
                let entity = model.index(ofEntity: name)!
                json.key(name)
                try json.object { json throws(StoreError) in
                    for (word, change) in ObjectChange.reported {
                        let gone = change == .deleted ? former?[entity] : nil
                        let isEmpty = gone.map {
                            $0.isEmpty && history?.countedKeys?.deleted(entity, atMost: 1) == nil
                        }
                        if omitsEmpty, isEmpty ?? (counts.number(of: change) == 0) { continue }
                        json.key(word)
                        try json.array { json throws(StoreError) in
                            var room = room
                            if let gone {
                                for (entity, key) in gone {
                                    key.withCells { json.key($0, of: entities[entity].entity) }
                                }
                            } else {
                                try writeKeys(entity, change, &json, &room)
                            }
                            try writeCountedKeys(entity, change, &json, &room)
                        }
                    }
                }
            }
        }
        return writer.bytes
    }

    /// By entity, the keys that objects had before the job, with their concrete entities then, and that no object has after
    /// it: of deleted objects, and of those that the job renamed. Nil for a job that renamed none, whose deleted objects have
    /// one key each.
    private func formerKeys() throws(StoreError) -> [[(entity: Int, key: StoredKey)]]? {
        guard run.merger.hasRenamed else { return nil }
        var keys: [[(entity: Int, key: StoredKey)]] = []
        for (entity, objects) in recordedChanges.enumerated() {
            keys.append([])
            for object in objects where object.change == .deleted || object.change == .updated {
                let (entry, former) = (object.entry, originalConcreteEntity(object.entry))
                let isTaken =
                    if let identity = entry.originalIdentity {
                        try run.merger.rowKey(former) { identity.bind(to: $0, from: 1) } != nil
                    } else {
                        try entities[entry.entity].find(entry.originalKey) != nil
                    }
                if !isTaken { keys[entity].append((former, entry.originalIdentity ?? entry.originalKey)) }
            }
        }
        return keys
    }

    private func writeCountedKeys(
        _ entity: Int, _ change: ObjectChange, _ json: inout JSONWriter, _ room: inout KeyRoom
    ) throws(StoreError) {
        guard let history else { return }
        switch change {
        case .deleted:
            guard json.count <= room.bytes else { return }
            if let keys = history.countedKeys?.deleted(entity, atMost: room.count) { json.raw(keys) }
        case .updated: try writeKeys(ofRows: history.changedNumbers[entity] ?? [], entity, &json, &room)
        case .inserted, .unchanged: break
        }
    }

    private func writeKeys(
        _ entity: Int, _ change: ObjectChange, _ json: inout JSONWriter, _ room: inout KeyRoom
    ) throws(StoreError) {
        let model = entities[entity].entity
        if let base, let state = change.state, let table = base.rows.tables[self.model.topmost(of: entity)] {
            for row in stagedRows(entity, table, in: state) {
                guard room.take(after: json) else { return }
                if model.hasRowKey {
                    try write(base.key(of: row, table), of: entity, to: &json)
                } else {
                    json.key(model.identity.map { table.row(row)[$0] }, of: model)
                }
            }
        }
        if change == .updated { try writeKeys(ofRows: numbersChangedOutside(entity), entity, &json, &room) }
        for object in recordedChanges[entity] where object.change == change {
            guard room.take(after: json) else { return }
            if let identity = object.entry.identity, change == .deleted {
                identity.withCells { json.key($0, of: model) }
            } else {
                try write(object.entry.key, of: entity, to: &json)
            }
        }
    }

    /// Writes the key by which clients name the object with that stored key.
    private func write(_ key: StoredKey, of entity: Int, to json: inout JSONWriter) throws(StoreError) {
        let model = entities[entity].entity
        guard model.hasRowKey, !model.isNamedByRowKey else {
            return key.withCells { json.key($0, of: model) }
        }
        let find = try entities[entity].identityOfRow()
        key.bind(to: find, from: 1)
        defer { find.reset() }
        if try find.step() { json.key(model.identity.indices.map { find.cell($0) }, of: model) }
    }

    private func writeKeys(
        ofRows numbers: Set<Int64>, _ entity: Int, _ json: inout JSONWriter, _ room: inout KeyRoom
    ) throws(StoreError) {
        for number in numbers.sorted() {
            guard room.take(after: json) else { return }
            if let key = try entities[entity].key(ofRow: number) { try write(key, of: entity, to: &json) }
        }
    }
}

extension ChangeCounts {
    fileprivate func number(of change: JobTally.ObjectChange) -> Int {
        switch change {
        case .inserted: inserted
        case .updated: updated
        case .deleted: deleted
        case .unchanged: unchanged
        }
    }
}
