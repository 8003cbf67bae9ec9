internal import BrokerJSON
internal import BrokerModel
internal import BrokerStaging

/// The net change of each object over a whole job: one object change for each.
struct JobTally {
    /// The state of a first step's staged row whose object is in the net changes, too: those count.
    private static let recorded: UInt8 = 255

    enum ObjectChange: Int {
        case inserted, updated, deleted, unchanged

        /// The changes whose keys are reported, with their names in the contract.
        static let reported: [(word: String, change: ObjectChange)] = [
            ("inserted", .inserted), ("updated", .updated), ("deleted", .deleted),
        ]
    }

    private struct RecordedChange {
        let change: ObjectChange
        let entry: NetChanges.Entry
    }

    /// The key by which clients named an object before the job.
    struct FormerKey {
        /// The object's concrete entity then.
        let entity: Int
        let key: StoredKey
    }

    let run: JobRun
    private let entities: [EntityStatements]
    /// The first step's states: as ``MergedRows/states``, with ``recorded`` for rows that the net changes report.
    private var states: [[UInt8]]
    private let linkStates: [[UInt8]]
    private var changedOutside: [Set<Int64>]
    /// The recorded changes, by the index of the objects' concrete entity.
    private var recordedChanges: [[RecordedChange]]
    /// By entity, the number of stored objects that the job deleted, also of those that it made again. Without the owned
    /// objects that their owners' values do not name.
    private(set) var deletions: [Int: Int]
    /// The concrete entities of the first step's rows, and of the rows changed beside them.
    private var concreteEntities: BaseConcreteEntities

    init(_ run: JobRun) throws(MergeFailure) {
        self.run = run
        entities = run.merger.entities
        states = run.base?.merged.states ?? Array(repeating: [], count: entities.count)
        linkStates = run.base?.merged.linkStates ?? Array(repeating: [], count: entities.count)
        changedOutside = run.base?.merged.changedOutside ?? Array(repeating: [], count: entities.count)
        recordedChanges = Array(repeating: [], count: entities.count)
        deletions = [:]
        for (entity, count) in run.history?.deletedCounts ?? [:] {
            let others = count - (run.history?.unnamedCounts[entity] ?? 0)
            if others > 0 { deletions[entity] = others }
        }
        concreteEntities = BaseConcreteEntities(run.merger.plan.model)
        let base = try run.base.map { base throws(MergeFailure) in try BaseRows(base.rows, base.merged, run.merger) }
        for entry in run.history?.entries ?? [] {
            let before = takeBaseState(entry, base)
            let existed = before.map { !$0.isInserted } ?? (entry.original != .absent)
            if existed, entry.wasDeleted { deletions[originalConcreteEntity(entry), default: 0] += 1 }
            guard let change = self.change(entry, existed: existed, before) else { continue }
            let concreteEntity = change == .deleted ? originalConcreteEntity(entry) : entry.concreteEntity
            recordedChanges[concreteEntity].append(RecordedChange(change: change, entry: entry))
        }
        try storing { () throws(StoreError) in
            try addLinks()
            if let base = run.base {
                try concreteEntities.read(
                    base.rows, base.merged, states, changedOutside, recorded: Self.recorded, run.merger)
            }
        }
    }

    /// The first step's effect on an object.
    private struct BaseState {
        let isInserted: Bool
        /// The step changed its links in link tables.
        let isLinkChanged: Bool
        let namesLinks: Bool
    }

    /// Returns the first step's effect on the entry's object; nil when the step did not touch it. From now on the net
    /// changes count the object.
    private mutating func takeBaseState(_ entry: NetChanges.Entry, _ base: BaseRows?) -> BaseState? {
        // A later step inserted the row: the object that the first step named by this key has been renamed since.
        guard entry.original != .absent else { return nil }
        if let row = base?.row(of: entry.originalKey, entry.entity) {
            defer { states[entry.entity][row] = Self.recorded }
            return BaseState(
                isInserted: states[entry.entity][row] == MergeTally.RowState.inserted.rawValue,
                isLinkChanged: linkStates[entry.entity][row] == MergeTally.RowState.updated.rawValue,
                namesLinks: run.base!.rows.tables[entry.entity]!.namings[row].namesLinks)
        }
        guard changedOutside[entry.entity].remove(entry.originalNumber) != nil else { return nil }
        return BaseState(isInserted: false, isLinkChanged: false, namesLinks: false)
    }

    /// - Parameters:
    ///   - existed: the object existed before the job.
    ///   - before: the first step's change of the object.
    private func change(_ entry: NetChanges.Entry, existed: Bool, _ before: BaseState?) -> ObjectChange? {
        switch (existed, entry.number != nil) {
        case (false, true): return .inserted
        case (true, false): return .deleted
        case (false, false): return nil
        case (true, true):
            let isBaseChanged = before?.isLinkChanged ?? false
            if before?.namesLinks ?? false || entry.namesLinks,
                run.history!.hasOtherLinks(entry.entity, entry.key, isBaseChanged: isBaseChanged)
            {
                return .updated
            }
            return isRowSame(entry) ? .unchanged : .updated
        }
    }

    /// Whether the row is the same as before the job.
    private func isRowSame(_ entry: NetChanges.Entry) -> Bool {
        let location = NetChanges.RowLocation(entity: entry.entity, number: entry.originalNumber)
        guard let original = run.history?.baseOriginals[location] else {
            return entry.original == .untouched || entry.original == .content(entry.content)
        }
        return entry.original != .untouched && entry.content == original.content
    }

    /// The object's concrete entity before the job.
    private func originalConcreteEntity(_ entry: NetChanges.Entry) -> Int {
        let location = NetChanges.RowLocation(entity: entry.entity, number: entry.originalNumber)
        return run.history?.baseOriginals[location]?.concreteEntity ?? entry.originalConcreteEntity
    }

    /// Objects of the first step that no later step touched, and whose records name links in link tables, are updated if
    /// they have other links at the end.
    private mutating func addLinks() throws(StoreError) {
        guard let base = run.base else { return }
        let unchanged = MergeTally.RowState.unchanged.rawValue
        for case let table? in base.rows.tables {
            let entity = table.entityIndex
            for row in 0..<table.rowCount where states[entity][row] == unchanged {
                let isChanged = linkStates[entity][row] != unchanged
                if let history = run.history {
                    guard isChanged || table.namings[row].namesLinks else { continue }
                    let key = try run.merger.key(of: row, table, base.merged)
                    guard history.hasOtherLinks(entity, key, isBaseChanged: isChanged) else { continue }
                } else if !isChanged {
                    continue
                }
                states[entity][row] = MergeTally.RowState.updated.rawValue
            }
        }
    }

    // MARK: - Counts

    func outcome() throws(MergeFailure) -> Outcome {
        var outcome = Outcome(run.reported)
        let rejected = run.reported.rejectedCounts
        let touched = Set(run.history?.entries.map(\.entity) ?? [])
        for (index, statements) in entities.enumerated() {
            let counts = counts(index, rejected: rejected[statements.entity.name] ?? 0)
            let isTouched = run.base?.rows.tables[index] != nil || touched.contains(index)
            guard isTouched && !run.merger.plan.model.isInHierarchy(index) || counts != ChangeCounts() else { continue }
            outcome.changes.append((statements.entity.name, counts))
        }
        outcome.changes.sort { $0.entity < $1.entity }
        if run.job.wantsKeys { outcome.keys = try keys(of: outcome.changes.map(\.entity)) }
        return outcome
    }

    private func counts(_ entity: Int, rejected: Int) -> ChangeCounts {
        var counts = ChangeCounts(rejected: rejected)
        let table = run.merger.plan.model.topmost(of: entity)
        for (row, state) in states[table].enumerated() where concreteEntities.isOne(row, of: table, entity) {
            switch state {
            case MergeTally.RowState.inserted.rawValue: counts.inserted += 1
            case MergeTally.RowState.updated.rawValue: counts.updated += 1
            case Self.recorded: continue
            default: counts.unchanged += 1
            }
        }
        counts.updated += concreteEntities.changedOutside(entity, changedOutside).count
        counts.updated += run.history?.changedNumbers[entity]?.count ?? 0
        counts.deleted += run.history?.deletedCounts[entity] ?? 0
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

    /// The contract's `keys`: by entity the inserted, updated and deleted objects. Objects of the first step come
    /// first, in the order of its rows, then the others in the order of their changes.
    private func keys(of names: [String]) throws(MergeFailure) -> [UInt8] {
        var writer = JSONWriter()
        try storing { () throws(StoreError) in
            try writer.object { json throws(StoreError) in
                for name in names {
                    let entity = run.merger.plan.model.index(ofEntity: name)!
                    json.key(name)
                    try json.object { json throws(StoreError) in
                        for (word, change) in ObjectChange.reported {
                            json.key(word)
                            try json.array { json throws(StoreError) in
                                var room = KeyRoom()
                                try writeKeys(entity, change, &json, &room)
                            }
                        }
                    }
                }
            }
        }
        return writer.bytes
    }

    /// The keys for the feed: as ``Outcome/keys``, without empty lists and objects.
    ///
    /// - Returns: nil when nothing changed, or there are too many.
    func feedKeys(of changes: [(entity: String, counts: ChangeCounts)]) throws(MergeFailure) -> [UInt8]? {
        let changed = changes.filter { $0.counts.hasChanges }
        let counted = run.history?.changedNumbers.values.reduce(0) { $0 + $1.count } ?? 0
        let lookups = counted + (run.merger.hasRenamed ? recordedChanges.reduce(0) { $0 + $1.count } : 0)
        guard !changed.isEmpty, lookups <= FeedKeys.maximumLookups, run.history?.countedKeys?.isComplete ?? true else {
            return nil
        }
        let keys = try changedKeys(changed, KeyRoom(bytes: FeedKeys.maximumBytesOfJob), former: try formerKeys())
        return keys.count <= FeedKeys.maximumBytesOfJob ? keys : nil
    }

    /// The keys of changed objects: as ``Outcome/keys``, without empty lists and objects.
    ///
    /// - Parameters:
    ///   - listRoom: how many keys are written in each list.
    ///   - former: ``formerKeys()``; nil writes the last key of each deleted object.
    func changedKeys(
        _ changed: [(entity: String, counts: ChangeCounts)], _ listRoom: KeyRoom, former: [[FormerKey]]? = nil
    ) throws(MergeFailure) -> [UInt8] {
        var writer = JSONWriter(capacity: 128)
        try storing { () throws(StoreError) in
            try writer.object { json throws(StoreError) in
                for (name, counts) in changed {
                    let entity = run.merger.plan.model.index(ofEntity: name)!
                    json.key(name)
                    try json.object { json throws(StoreError) in
                        for (word, change) in ObjectChange.reported {
                            let gone = change == .deleted ? former?[entity] : nil
                            let isEmpty = gone.map {
                                $0.isEmpty && run.history?.countedKeys?.deleted(entity, atMost: 1) == nil
                            }
                            guard !(isEmpty ?? (counts.number(of: change) == 0)) else { continue }
                            json.key(word)
                            try json.array { json throws(StoreError) in
                                var room = listRoom
                                if let gone {
                                    for former in gone {
                                        former.key.withCells { json.key($0, of: entities[former.entity].entity) }
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
        }
        return writer.bytes
    }

    /// By entity, the keys that objects had before the job and that no object has after it: of deleted objects, and of
    /// those that the job renamed. Nil for a job that renamed none, whose deleted objects have one key each.
    private func formerKeys() throws(MergeFailure) -> [[FormerKey]]? {
        guard run.merger.hasRenamed else { return nil }
        return try storing { () throws(StoreError) in
            var keys: [[FormerKey]] = []
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
                    guard !isTaken else { continue }
                    keys[entity].append(FormerKey(entity: former, key: entry.originalIdentity ?? entry.originalKey))
                }
            }
            return keys
        }
    }

    /// Writes the keys of objects that the net changes only counted.
    private func writeCountedKeys(
        _ entity: Int, _ change: ObjectChange, _ json: inout JSONWriter, _ room: inout KeyRoom
    ) throws(StoreError) {
        guard let history = run.history else { return }
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
        let topmost = run.merger.plan.model.topmost(of: entity)
        if let base = run.base, let table = base.rows.tables[topmost], let state = change.state {
            for position in 0..<table.rowCount {
                let row = table.order[position]
                guard states[topmost][row] == state.rawValue, concreteEntities.isOne(row, of: topmost, entity) else {
                    continue
                }
                guard room.take(after: json) else { return }
                if model.hasRowKey {
                    let key = StoredKey([.integer(base.merged.rowKeys[topmost][row])])
                    try write(key, of: entity, to: &json)
                } else {
                    json.key(model.identity.map { table.row(row)[$0] }, of: model)
                }
            }
        }
        if change == .updated {
            try writeKeys(ofRows: concreteEntities.changedOutside(entity, changedOutside), entity, &json, &room)
        }
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
        guard try find.step() else { return }
        json.key(model.identity.indices.map { find.cell($0) }, of: model)
    }

    private func writeKeys(
        ofRows numbers: Set<Int64>, _ entity: Int, _ json: inout JSONWriter, _ room: inout KeyRoom
    ) throws(StoreError) {
        let statements = entities[entity]
        for number in numbers.sorted() {
            guard room.take(after: json) else { return }
            let find = try statements.key()
            find.bind(number, at: 1)
            defer { find.reset() }
            guard try find.step() else { continue }
            let key = StoredKey(statements.keyNames.indices.map { find.cell($0) })
            try write(key, of: entity, to: &json)
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

extension JobTally.ObjectChange {
    fileprivate var state: MergeTally.RowState? {
        switch self {
        case .inserted: .inserted
        case .updated: .updated
        case .deleted, .unchanged: nil
        }
    }
}

/// How many keys of a list are written.
struct KeyRoom {
    /// Keys that may still be written.
    var count = Int.max
    /// No key is written when the whole text has more bytes.
    var bytes = Int.max

    /// Whether one more key is written.
    mutating func take(after json: JSONWriter) -> Bool {
        guard count > 0, json.count <= bytes else { return false }
        count -= 1
        return true
    }
}

/// The keys in the answer to a dry run.
extension JobTally {
    /// The keys of each entity and change: as many as a person reads.
    static let exampleCount = 10
    /// Bytes of all of them, as long as no single key is longer.
    private static let exampleBytes = 32 << 10

    /// As ``Outcome/keys``, with a few keys in each list, and without empty lists and objects.
    func examples(of changes: [(entity: String, counts: ChangeCounts)]) throws(MergeFailure) -> [UInt8] {
        try changedKeys(
            changes.filter(\.counts.hasChanges), KeyRoom(count: Self.exampleCount, bytes: Self.exampleBytes))
    }
}
