internal import BrokerModel
internal import BrokerStaging

/// The positions in ordered to-many relationships, assigned after all links are made.
///
/// A new link has no position yet and gets one after the existing links. In a set that was replaced or cleared, the
/// positions are those of the payload, from 0.
extension JobMerge {
    mutating func mergeListPositions() throws(MergeFailure) {
        guard !rows.listPositions.isEmpty else { return }
        try storing { () throws(StoreError) in
            let replaced = Set(rows.replacements.map(\.set))
            let retaining = Set(rows.retainedLinks.map(\.set))
            var rest = rows.listPositions[...]
            while let set = rest.first?.set {
                let own = rest.prefix { $0.set == set }
                if replaced.contains(set) {
                    try renumber(set, own, isRetaining: retaining.contains(set))
                } else {
                    try append(set, own)
                }
                rest = rest.dropFirst(own.count)
            }
        }
    }

    /// Assigns positions after the last one to the elements that have none.
    private mutating func append(_ set: ToManySet, _ entries: ArraySlice<StagedListPosition>) throws(StoreError) {
        let statements = statements(of: set)
        var linked: [(entry: StagedListPosition, position: Cell)] = []
        for entry in entries {
            guard let position = try position(entry, set, statements) else { continue }
            if position.kind == .null || entry.isRelinked { linked.append((entry, position)) }
        }
        guard !linked.isEmpty else { return }
        let moving = linked.lazy.filter { $0.position.kind == .integer }.map(\.position.integer)
        var next =
            moving.isEmpty
            ? try end(of: set, statements)
            : (try positions(of: set, statements).subtracting(moving).max() ?? -1) + 1
        for (entry, position) in linked {
            // An element that had a position before: the element's own record ended the link and made it again.
            if try move(entry, from: position, to: next, set, statements), position.kind != .null, isInJoinTable(set) {
                noteLinkUpdate(destination(of: set), entry.element)
            }
            next += 1
        }
    }

    /// Assigns the positions of the payload to all elements that the job named.
    private mutating func renumber(
        _ set: ToManySet, _ entries: ArraySlice<StagedListPosition>, isRetaining: Bool
    ) throws(StoreError) {
        let statements = statements(of: set)
        var linked: [(entry: StagedListPosition, position: Cell)] = []
        for entry in entries {
            if let position = try position(entry, set, statements) { linked.append((entry, position)) }
        }
        // Rejected elements keep their positions, and no other element takes these.
        var taken = isRetaining ? try positions(of: set, statements) : []
        if isRetaining { taken.subtract(linked.lazy.filter { $0.position.kind == .integer }.map(\.position.integer)) }
        var next: Int64 = 0
        for (entry, position) in linked {
            while taken.contains(next) { next += 1 }
            // For a new link, the merge has recorded the row whose record named it.
            if try move(entry, from: position, to: next, set, statements), position.kind != .null, isInJoinTable(set) {
                noteLinkUpdate(set.entity, set.row)
            }
            next += 1
        }
    }

    private func isInJoinTable(_ set: ToManySet) -> Bool {
        if case .linkTable = merger.plan.layout.entities[set.entity].forms[set.relationship] { true } else { false }
    }

    /// For a to-one link, the change belongs to the row that has it: the element's.
    ///
    /// - Returns: whether the position changed.
    private mutating func move(
        _ entry: StagedListPosition, from old: Cell, to new: Int64, _ set: ToManySet,
        _ statements: ListPositionStatements
    ) throws(StoreError) -> Bool {
        if old.kind == .integer, old.integer == new { return false }
        try write(new, entry, set, statements)
        var hash = RowHash(UInt64(set.entity) << 32 | UInt64(set.relationship))
        for number in [set.row, entry.element, Int(new)] { hash.add(UInt64(number)) }
        result.beside.add(hash.value)
        if !isInJoinTable(set) { noteUpdate(destination(of: set), entry.element, 0) }
        return true
    }

    // MARK: - Statements

    private func destination(of set: ToManySet) -> Int {
        merger.plan.model.destinationTable(set.entity, set.relationship)
    }

    private func statements(of set: ToManySet) -> ListPositionStatements {
        switch merger.plan.layout.entities[set.entity].forms[set.relationship] {
        case .column: preconditionFailure("a to-one relationship has no order")
        case .destinationColumn(let column): merger.entities[destination(of: set)].positions(byColumn: column)
        case .linkTable(let number, let isReversed): merger.links[number].positions[isReversed ? 1 : 0]
        }
    }

    /// The element's position, NULL when it has none yet; nil when it is not linked.
    private func position(
        _ entry: StagedListPosition, _ set: ToManySet, _ statements: ListPositionStatements
    ) throws(StoreError) -> Cell? {
        let find = try statements.find()
        let next = bindKey(ofRow: set.row, set.entity, to: find, from: 1)
        bindKey(ofRow: entry.element, destination(of: set), to: find, from: next)
        defer { find.reset() }
        return try find.step() ? find.cell(0) : nil
    }

    private func end(of set: ToManySet, _ statements: ListPositionStatements) throws(StoreError) -> Int64 {
        let last = try statements.last()
        bindKey(ofRow: set.row, set.entity, to: last, from: 1)
        defer { last.reset() }
        guard try last.step(), last.cell(0).kind == .integer else { return 0 }
        return last.integer(0) + 1
    }

    private func positions(of set: ToManySet, _ statements: ListPositionStatements) throws(StoreError) -> Set<Int64> {
        let all = try statements.all()
        bindKey(ofRow: set.row, set.entity, to: all, from: 1)
        var positions: Set<Int64> = []
        while try all.step() {
            if all.cell(0).kind == .integer { positions.insert(all.integer(0)) }
        }
        return positions
    }

    private func write(
        _ position: Int64, _ entry: StagedListPosition, _ set: ToManySet, _ statements: ListPositionStatements
    ) throws(StoreError) {
        let write = try statements.set()
        let next = bindKey(ofRow: set.row, set.entity, to: write, from: 1)
        write.bind(position, at: bindKey(ofRow: entry.element, destination(of: set), to: write, from: next))
        try write.run()
    }
}
