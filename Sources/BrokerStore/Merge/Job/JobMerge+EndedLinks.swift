internal import BrokerModel
internal import BrokerSchema
internal import BrokerStaging

/// Links that end because of this job: the link of the other partner of a one-to-one relationship, and links that a
/// replaced to-many relationship no longer has.
///
/// Few rows are concerned, so they are handled row by row: stored links that this job does not name are removed.
extension JobMerge {
    mutating func endLinks() throws(MergeFailure) {
        try storing { () throws(StoreError) in
            try endOneToOneLinks()
            try noteUnlinkedOwnedRows()
            guard !rows.replacements.isEmpty else { return }
            try collectRetainedLinks()
            var ended = EndedLinks(linkTableCount: rows.links.count)
            for replacement in rows.replacements { try replace(replacement, &ended) }
            for (number, rowNumbers) in ended.rowNumbers.enumerated() { try delete(rowNumbers, from: number) }
        }
    }

    // MARK: - One to one

    private mutating func endOneToOneLinks() throws(StoreError) {
        for (entity, table) in rows.tables.enumerated() {
            guard let table else { continue }
            let layout = merger.plan.layout.entities[entity]
            for column in layout.attributeCount..<layout.columnCount {
                let link = layout.link(atColumn: column)
                guard let back = link.oneToOneColumn else { continue }
                for row in 0..<table.rowCount {
                    let cell = table.row(row)[column]
                    if cell.kind == .absent { continue }
                    // Other objects that refer to this object.
                    try unlink(
                        link.destination, column: back, linkedTo: row, of: entity,
                        but: cell.kind == .object ? cell.row : nil)
                    // Other objects of this entity that refer to the object to which this one is now linked.
                    if cell.kind == .object {
                        try unlink(entity, column: column, linkedTo: cell.row, of: link.destination, but: row)
                    }
                }
            }
        }
    }

    /// Ends the links in `column` of `entity` that refer to the staged row, except the one of the staged row
    /// `retained`.
    private mutating func unlink(
        _ entity: Int, column: Int, linkedTo row: Int, of destination: Int, but retained: Int?
    ) throws(StoreError) {
        try unlink(entity, column: column, linkedTo: row, of: destination) { _, stagedRow, _ in
            stagedRow != nil && stagedRow == retained
        }
    }

    /// - Parameter isRetained: called with the staged row, if this job staged it, and the statement positioned at its
    ///   key.
    private mutating func unlink(
        _ entity: Int, column: Int, linkedTo row: Int, of destination: Int,
        isRetained: (borrowing JobMerge, Int?, Statement) throws(StoreError) -> Bool
    ) throws(StoreError) {
        let linked = try merger.entities[entity].linked(byColumn: column)
        bindKey(ofRow: row, destination, to: linked, from: 1)
        var ended: [(rowNumber: Int64, stagedRow: Int?)] = []
        while try linked.step() {
            let stagedRow = try stagedRow(entity, linked, from: 1)
            if try isRetained(self, stagedRow, linked) { continue }
            ended.append((linked.integer(0), stagedRow))
            noteEnd(ofLinkAt: RowHash(UInt64(entity) << 32 | UInt64(column)), entity, linked)
        }
        guard merger.plan.ownerColumns[entity] != column else {
            // The link stays until the object is deleted: another program's table may require it.
            result.orphans[entity, default: []].formUnion(ended.map(\.rowNumber))
            return
        }
        let unlink = try merger.entities[entity].unlink(column: column)
        for (rowNumber, stagedRow) in ended {
            unlink.bind(rowNumber, at: 1)
            try unlink.run()
            noteUpdate(entity, stagedRow, rowNumber)
        }
    }

    // MARK: - Replaced to-many links

    /// Row numbers of the links that end, by link table. They are deleted after all have been found, because an object
    /// changes when a link leaves its set, even if the object at the other end removed the link, too.
    struct EndedLinks {
        var rowNumbers: [Set<Int64>]

        init(linkTableCount: Int) { rowNumbers = Array(repeating: [], count: linkTableCount) }
    }

    private mutating func replace(_ replacement: StagedReplacement, _ ended: inout EndedLinks) throws(StoreError) {
        let plan = merger.plan
        let destination = plan.model.destinationTable(replacement.entity, replacement.relationship)
        switch plan.layout.entities[replacement.entity].forms[replacement.relationship] {
        case .column: return
        case .destinationColumn(let column):
            // All links to a new object are this job's.
            let state = result.states[replacement.entity][replacement.row]
            guard state != MergeTally.RowState.inserted.rawValue else { return }
            let table = rows.tables[destination]
            try unlink(
                destination, column: column, linkedTo: replacement.row, of: replacement.entity
            ) { merge, stagedRow, key throws(StoreError) in
                if merge.lookups.isRetained(replacement, try merge.key(of: destination, key)) { return true }
                guard let stagedRow, let cell = table?.row(stagedRow)[column] else { return false }
                return cell.kind == .object && cell.row == replacement.row
            }
        case .linkTable(let number, let isReversed):
            var isChanged = try end(replacement, number, isReversed: isReversed, destination, &ended)
            // A relationship that is its own inverse also loses the links in the other direction.
            if merger.links[number].link.isSymmetric {
                isChanged = try end(replacement, number, isReversed: true, destination, &ended) || isChanged
            }
            if isChanged { noteLinkUpdate(replacement.entity, replacement.row) }
        }
    }

    /// Finds the links of one side that this job does not name.
    ///
    /// - Returns: whether there are any.
    private mutating func end(
        _ replacement: StagedReplacement, _ number: Int, isReversed: Bool, _ destination: Int,
        _ ended: inout EndedLinks
    ) throws(StoreError) -> Bool {
        let named = lookups.namedLinks(rows, number, isReversed: isReversed)[replacement.row] ?? []
        let linked = try merger.links[number].linked(isReversed: isReversed)
        bindKey(ofRow: replacement.row, replacement.entity, to: linked, from: 1)
        var isChanged = false
        while try linked.step() {
            let other = try stagedRow(destination, linked, from: 1)
            if let other, named.contains(other) { continue }
            if lookups.isRetained(replacement, try key(of: destination, linked)) { continue }
            ended.rowNumbers[number].insert(linked.integer(0))
            var hash = RowHash(UInt64(number) << 1 | (isReversed ? 1 : 0))
            hash.add(UInt64(replacement.row))
            noteEnd(ofLinkAt: hash, destination, linked)
            isChanged = true
        }
        return isChanged
    }

    /// Adds a link to the digest.
    ///
    /// - Parameter statement: has the key of the entity in the columns from 1 on.
    private mutating func noteEnd(ofLinkAt place: RowHash, _ entity: Int, _ statement: Statement) {
        var hash = place
        for column in merger.entities[entity].keyNames.indices { hash.add(statement.cell(1 + column)) }
        result.beside.add(hash.value)
    }

    private func delete(_ rowNumbers: Set<Int64>, from number: Int) throws(StoreError) {
        guard !rowNumbers.isEmpty else { return }
        let delete = try merger.links[number].delete()
        for rowNumber in rowNumbers {
            delete.bind(rowNumber, at: 1)
            try delete.run()
        }
    }

    /// Looks up the rejected elements, whose links stay.
    private mutating func collectRetainedLinks() throws(StoreError) {
        for retained in rows.retainedLinks {
            guard merger.entities[retained.concreteEntity].hasRowKey else {
                lookups.retain(retained, try merger.forms.key(retained.identity, of: retained.concreteEntity))
                continue
            }
            let identity = StoredKey(retained.identity)
            let rowKey = try merger.rowKey(retained.concreteEntity) { identity.bind(to: $0, from: 1) }
            if let rowKey { lookups.retain(retained, StoredKey([.integer(rowKey)])) }
        }
    }

    // MARK: - Identification

    /// The staged row whose key is in the statement's columns from `first` on; nil when this job did not stage it.
    mutating func stagedRow(_ entity: Int, _ statement: Statement, from first: Int) throws(StoreError) -> Int? {
        guard let table = rows.tables[entity] else { return nil }
        let model = merger.entities[entity].entity
        if model.hasRowKey { return lookups.row(ofKey: statement.integer(first), entity, result.rowKeys) }
        if merger.forms.changesKey(of: entity) {
            let key = try merger.forms.key(model.identity.indices.map { statement.cell(first + $0) }, of: entity)
            return try lookups.row(of: key, table, merger.forms)
        }
        return table.find(
            identity: model.identity.indices.map { statement.cell(first + $0) }, concreteEntity: entity)
    }

    /// The key of the entity in the statement's columns from 1 on.
    private func key(of entity: Int, _ statement: Statement) throws(StoreError) -> StoredKey {
        guard !rows.retainedLinks.isEmpty else { return StoredKey([]) }
        let cells = merger.entities[entity].keyNames.indices.map { statement.cell(1 + $0) }
        return try merger.entities[entity].hasRowKey ? StoredKey(cells) : merger.forms.key(cells, of: entity)
    }

    /// Records that a record of the object changed a link in a link table.
    mutating func noteLinkUpdate(_ entity: Int, _ stagedRow: Int) {
        result.linkStates[entity][stagedRow] = MergeTally.RowState.updated.rawValue
    }

    /// Records that the row changed.
    mutating func noteUpdate(_ entity: Int, _ stagedRow: Int?, _ rowNumber: Int64) {
        guard let stagedRow else {
            result.changedOutside[entity].insert(rowNumber)
            return
        }
        if result.states[entity][stagedRow] == MergeTally.RowState.unchanged.rawValue {
            result.states[entity][stagedRow] = MergeTally.RowState.updated.rawValue
        }
    }
}

/// Lookups in a job's rows for replaced relationships, built on first use.
struct StagedLookups {
    private struct Side: Hashable {
        let linkTable: Int
        let isReversed: Bool
    }

    private var links: [Side: [Int: Set<Int>]] = [:]
    private var rows: [Int: [Int64: Int]] = [:]
    private var retained: [ToManySet: Set<StoredKey>] = [:]
    /// Indexed by entity, for entities whose columns convert staged values.
    private var stored: [Int: [StoredKey: Int]] = [:]

    mutating func retain(_ link: RetainedLink, _ key: StoredKey) {
        retained[link.set, default: []].insert(key)
    }

    /// Whether the object with that key is a rejected element of the relationship.
    func isRetained(_ replacement: StagedReplacement, _ key: StoredKey) -> Bool {
        retained[replacement.set]?.contains(key) ?? false
    }

    /// The rows to which this job links each row of one side.
    mutating func namedLinks(_ staged: StagedRows, _ linkTable: Int, isReversed: Bool) -> [Int: Set<Int>] {
        let side = Side(linkTable: linkTable, isReversed: isReversed)
        if let known = links[side] { return known }
        var named: [Int: Set<Int>] = [:]
        for link in staged.links[linkTable] {
            let (own, other) = isReversed ? (link.destination, link.source) : (link.source, link.destination)
            named[Int(own), default: []].insert(Int(other))
        }
        links[side] = named
        return named
    }

    /// The staged row with this key, of an entity whose columns convert staged values.
    mutating func row(of key: StoredKey, _ table: FrozenTable, _ forms: ColumnAffinities) throws(StoreError) -> Int? {
        if stored[table.entityIndex] == nil { stored[table.entityIndex] = try forms.rows(of: table) }
        return stored[table.entityIndex]?[key]
    }

    /// The staged row with this row key; nil when this job did not stage it.
    mutating func row(ofKey key: Int64, _ entity: Int, _ keys: [[Int64]]) -> Int? {
        if rows[entity] == nil {
            rows[entity] = Dictionary(
                keys[entity].enumerated().map { ($1, $0) }, uniquingKeysWith: { first, _ in first })
        }
        return rows[entity]?[key]
    }
}

/// The object that an operation names by its key.
extension JobMerge {
    /// Checks that the target exists. If its record has another identity, the object gets that one, and all references
    /// to it follow.
    mutating func settleTarget() throws(MergeFailure) {
        guard let target = rows.target else { return }
        let (fault, otherIdentity) = try storing {
            () throws(StoreError) -> (Fault?, (identity: StoredKey, kind: Int)?) in
            let fault = try settle(target)
            return (fault, try fault == nil ? self.otherIdentity(of: target) : nil)
        }
        if let fault { throw .targetRejected(rows.located(fault, at: target.offset)) }
        if let otherIdentity { throw .needsTargetIdentity(identity: otherIdentity.identity, kind: otherIdentity.kind) }
    }

    /// The stored identity of an object that is named by a row key, when staging needs it:
    /// 1. Other rows name the object by that identity, so that it has two rows.
    /// 2. Its record has a part of an identity, which the stored parts complete.
    private func otherIdentity(of target: StagedTarget) throws(StoreError) -> (identity: StoredKey, kind: Int)? {
        let (entity, key) = (target.entity, StoredKey(target.key))
        let isNamedByRowKey = merger.entities[target.concreteEntity].entity.isNamedByRowKey
        guard isNamedByRowKey, !rows.tables[entity]!.hasIdentity(target.row) else { return nil }
        var kind = target.concreteEntity
        if merger.plan.model.isInHierarchy(entity) {
            kind = try merger.entities[entity].find(key)?.concreteEntity ?? kind
        }
        let identity = merger.entities[kind].entity.identity
        guard !identity.isEmpty else { return nil }
        let values = try merger.entities[kind].values(of: identity)
        key.bind(to: values, from: 1)
        defer { values.reset() }
        guard try values.step() else { return nil }
        let cells = identity.indices.map { values.cell($0) }
        let record = rows.tables[entity]!.row(target.row)
        if identity.contains(where: { record[$0].kind != .absent }) {
            let isWhole = zip(identity, cells).allSatisfy { record[$0].kind != .absent || $1.kind != .null }
            return isWhole ? (StoredKey(cells), kind) : nil
        }
        guard cells.allSatisfy({ $0.kind != .null }) else { return nil }
        let deleted = rows.tombstoneDeletions?.all.filter { $0.entityIndex == entity } ?? []
        let tables = [rows.tables[entity]].compactMap(\.self) + deleted
        let isNamed = tables.contains { $0.find(identity: cells, concreteEntity: kind) != nil }
        return isNamed ? (StoredKey(cells), kind) : nil
    }

    private mutating func settle(_ target: StagedTarget) throws(StoreError) -> Fault? {
        let statements = merger.entities[target.entity]
        let model = merger.entities[target.concreteEntity].entity
        let found = try merger.storedKey(of: target)
        guard let key = found, try statements.find(key) != nil, try isFitting(target, key) else {
            return Fault(
                .objectNotFound,
                "There is no \(model.name) \(StoredKey(target.key).described). Process it without `object` first, or send another key.",
                entity: model.name)
        }
        let cells = rows.tables[target.entity]!.row(target.row)
        if model.hasRowKey {
            key.withCells { targetRowKey = $0[0].integer }
            guard rows.tables[target.entity]!.hasIdentity(target.row) else { return nil }
            if let holder = try merger.rowKey(of: cells, target.concreteEntity) {
                return holder == targetRowKey ? nil : Self.taken(model)
            }
            // From here on, the old identity names another object.
            let identify = try merger.entities[target.concreteEntity].identify()
            key.bind(to: identify, from: 1)
            merger.entities[target.concreteEntity].bindIdentity(cells, to: identify, from: 2)
            merger.hasRenamed = true
            try identify.run()
            return nil
        }
        guard target.isRenamed else { return nil }
        let new = try merger.forms.key(model.identity.map { cells[$0] }, of: target.entity)
        guard new != key else { return nil }
        if try statements.find(new) != nil { return Self.taken(model) }
        let rename = try statements.rename()
        new.bind(to: rename, from: 1)
        key.bind(to: rename, from: 1 + model.identity.count)
        merger.hasRenamed = true
        try rename.run()
        for update in try merger.ownedKeys.updates(target.entity) {
            new.bind(to: update, from: 1)
            try update.run()
        }
        return nil
    }

    /// Whether an object of a hierarchy is of the operation's entity, or may become one.
    private func isFitting(_ target: StagedTarget, _ key: StoredKey) throws(StoreError) -> Bool {
        let model = merger.plan.model
        guard model.entities[target.concreteEntity].parent != nil else { return true }
        guard let stored = try merger.entities[target.entity].find(key)?.concreteEntity else { return false }
        if model.isKind(stored, of: target.concreteEntity) { return true }
        return target.mayBecome && model.isKind(target.concreteEntity, of: stored)
            && !model.entities[target.concreteEntity].isAbstract
    }

    static func taken(_ model: Entity) -> Fault {
        Fault(
            .constraintViolation,
            "Another \(model.name) has the identity that the record brings, so the object cannot get it. Change that "
                + "identity, or process the record without `object` to update the other one.", entity: model.name)
    }
}

/// Examines unique values before anything is written: the slow path, taken only after a conflict.
extension JobMerge {
    /// Rejects the objects whose claims cannot be met. The others give up the values that they had, so that values can
    /// pass from one object to another in any order.
    ///
    /// - Returns: values of other objects that must be parked before the rows can be merged.
    mutating func settleUniqueValues() throws(MergeFailure) -> [OccupiedValue] {
        let contenders = try storing { () throws(StoreError) in try Contenders(&self) }
        guard !contenders.isRefused else { throw .fault(MergeMemory.refusal) }
        return try storing { () throws(StoreError) in
            var occupied: Set<OccupiedValue.Value> = []
            var claims = try UniqueConflicts(contenders.claims) { list, key throws(StoreError) in
                guard let retained = try contenders.retained(list, key, &self) else { return false }
                guard retained.isOutside, let parked, parked.canPark(retained.value) else { return true }
                occupied.insert(retained.value)
                return false
            }
            claims.settle()
            for (object, list) in claims.rejected.sorted(by: { $0.key < $1.key }) {
                let (object, list) = (contenders.objects[object], contenders.lists[list])
                let model = try self.model(ofRow: object.row, rows.tables[object.entity]!)
                reject(object.entity, object.row) { Self.taken(list.attributes, model, isListed: $0) }
            }
            guard claims.rejected.isEmpty else { return [] }
            if occupied.isEmpty { try freeValues(contenders) }
            return contenders.claimed(occupied, self)
        }
    }

    /// Replaces the values that objects give up by values that no other row has.
    private func freeValues(_ contenders: Contenders) throws(StoreError) {
        for (object, claims) in zip(contenders.objects, contenders.claims) {
            let statements = merger.entities[object.entity]
            for claim in claims where claim.isGivingUp {
                let columns = contenders.lists[claim.list].attributes.filter { column in
                    rows.tables[object.entity]!.row(object.row)[column].kind != .absent
                        && (statements.hasRowKey || !statements.entity.identity.contains(column))
                }
                guard !columns.isEmpty else { continue }
                let statement = try statements.freeValues(columns)
                var index = bindKey(ofRow: object.row, object.entity, to: statement, from: 1)
                for _ in columns {
                    // No value of the model's types can be equal: blobs do not start with this text by chance.
                    statement.bind(blob: Array("_broker_vacant \(object.entity) \(object.row)".utf8), at: index)
                    index += 1
                }
                try statement.run()
            }
        }
    }

    static func taken(_ list: [Int], _ model: Entity, isListed: Bool) -> Fault {
        let names = list.map { model.attributes[$0].name }
        let what = names.count == 1 ? "value of \(names[0])" : "values of \(names.joined(separator: ", ")) together"
        return Fault(
            .constraintViolation,
            isListed
                ? "Another \(model.name) has the \(what) that this one would get, and they are unique in the model. "
                    + "Change one of the two, or take the unique constraint out of the model." : "",
            entity: model.name, attribute: names.count == 1 ? names[0] : nil)
    }
}
