import BrokerModel

/// Resolves the assertions about the order of links.
extension LinkResolution {
    /// The key of an element's position. An element of a set of to-one links belongs to one object, so the key has no
    /// row.
    private struct ElementKey: Hashable {
        let entity: Int
        let relationship: Int
        let row: Int?
        let element: Int
    }

    private struct ElementState {
        /// Index of the assertion that decides the position.
        let index: Int
        /// Nil when the link has ended.
        let row: Int?
        let isRelinked: Bool
        /// Index of the latest assertion.
        var last: Int
    }

    /// The offsets at which an element's own to-many set was cleared, in the order of the text.
    ///
    /// 1. A null ends the links that were asserted before its record.
    /// 2. A set that replaces ends the links that its operation does not name. A link that the operation names existed
    ///    throughout, and its element retains its position.
    struct ElementClearings {
        private var sets: [ToManySet: [(at: UInt32, isNull: Bool)]] = [:]

        init(_ replacements: [StagedReplacement]) {
            for replacement in replacements {
                sets[replacement.set, default: []].append((replacement.clearsBefore, replacement.isNull))
            }
            for (set, clearings) in sets {
                let sorted = clearings.sorted { ($0.at, $0.isNull ? 1 : 0) < ($1.at, $1.isNull ? 1 : 0) }
                // All records of one operation replace together, so one entry is enough; otherwise each assertion would
                // scan all of them.
                sets[set] = sorted.indices.filter { $0 == 0 || sorted[$0] != sorted[$0 - 1] }.map { sorted[$0] }
            }
        }

        /// Whether the link ended between two assertions of it.
        ///
        /// - Parameters:
        ///   - earlier: source offset of the earlier assertion; 0 when there is none.
        ///   - position: the later assertion.
        func haveEnded(_ set: ToManySet, since earlier: UInt32, before position: StagedListPosition) -> Bool {
            guard let clearings = sets[set] else { return false }
            var (low, high) = (0, clearings.count)
            while low < high {
                let middle = (low + high) / 2
                if clearings[middle].at > earlier { high = middle } else { low = middle + 1 }
            }
            for clearing in clearings[low...] {
                if clearing.at > position.sourceOffset { return false }
                if clearing.isNull || clearing.at != position.operation { return true }
            }
            return false
        }
    }

    /// Removes assertions that were cleared later, that another assertion overrides, and that repeat an earlier one.
    ///
    /// - Returns: by object and relationship, each element once, in list order.
    func order(
        _ listPositions: [StagedListPosition], _ cleared: [ToManySet: Clearing], _ replacements: [StagedReplacement]
    ) -> [StagedListPosition] {
        let assertions = listPositions.sorted(by: StagedListPosition.precedes)
        let clearings = ElementClearings(replacements)
        var states: [ElementKey: ElementState] = [:]
        for (index, position) in assertions.enumerated() {
            let relationship = plan.model.entities[position.entity].relationships[position.relationship]
            let isToOne = plan.model.inverse(of: relationship).map { !$0.isToMany } ?? false
            let key = ElementKey(
                entity: position.entity, relationship: position.relationship, row: isToOne ? nil : position.row,
                element: position.element)
            let row = isClearedByObject(position, cleared) ? nil : position.row
            let known = states[key]
            let earlier = known.map { assertions[$0.last].sourceOffset } ?? 0
            let hasEnded =
                elementSet(of: position).map { clearings.haveEnded($0, since: earlier, before: position) } ?? false
            // An element that is named again retains its position.
            if let known, known.row == row, !hasEnded {
                states[key]!.last = index
                continue
            }
            states[key] = ElementState(
                index: index, row: row, isRelinked: isToOne ? known != nil : hasEnded || known?.isRelinked ?? false,
                last: index)
        }
        return states.values.filter { $0.row != nil && !isClearedByElement(assertions[$0.last], cleared) }
            .sorted { Self.sortKey(assertions[$0.index], $0.index) < Self.sortKey(assertions[$1.index], $1.index) }
            .map { state in
                var position = assertions[state.index]
                position.isRelinked = state.isRelinked
                return position
            }
    }

    private static func sortKey(_ position: StagedListPosition, _ index: Int) -> (Int, Int, Int, Int) {
        (position.entity, position.relationship, position.row!, index)
    }

    /// Whether the ordered set itself was cleared later. Such a set gets new positions.
    private func isClearedByObject(_ position: StagedListPosition, _ cleared: [ToManySet: Clearing]) -> Bool {
        guard let own = position.set, !cleared.isEmpty else { return false }
        return cleared[own]?.takes(position.element, sourceOffset: position.linkOffset) ?? false
    }

    /// Whether the set of the inverse was cleared after the last assertion of a link.
    private func isClearedByElement(_ position: StagedListPosition, _ cleared: [ToManySet: Clearing]) -> Bool {
        guard let row = position.row, !cleared.isEmpty, let set = elementSet(of: position) else { return false }
        return cleared[set]?.takes(row, sourceOffset: position.linkOffset) ?? false
    }

    /// Returns the set of the inverse, which the element's own records name.
    private func elementSet(of position: StagedListPosition) -> ToManySet? {
        let relationship = plan.model.entities[position.entity].relationships[position.relationship]
        guard let inverse = relationship.inverse else { return nil }
        return ToManySet(entity: plan.destinationTable(of: position), row: position.element, relationship: inverse)
    }
}
