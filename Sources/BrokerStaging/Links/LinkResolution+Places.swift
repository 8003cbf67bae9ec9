import BrokerModel

/// Weighs what a job's records said of the order of links.
extension LinkResolution {
    /// What stands where only as long as the link is there: in a set of to-one links an element belongs to one object.
    private struct Subject: Hashable {
        let entity: Int
        let relationship: Int
        let row: Int?
        let element: Int
    }

    private struct Standing {
        /// Of the word that counts.
        let index: Int
        /// Nil when the link has ended.
        let row: Int?
        let isAfresh: Bool
        /// Of the newest word.
        var last: Int
    }

    /// Where an element's own to-many set was cleared, in the order of the text.
    ///
    /// 1. A null ends the links that were said before its record.
    /// 2. A set that replaces ends the links that its operation does not name. A link that it names was there all the time, and
    ///    stays where it stands.
    struct ElementClearings {
        private var sets: [ClearedSet: [(at: UInt32, isNull: Bool)]] = [:]

        init(_ replacements: [StagedReplacement]) {
            for replacement in replacements {
                let set = ClearedSet(
                    entity: replacement.entity, row: replacement.row, relationship: replacement.relationship)
                sets[set, default: []].append((replacement.clearsBefore, replacement.isNull))
            }
            for (set, clearings) in sets {
                let sorted = clearings.sorted { ($0.at, $0.isNull ? 1 : 0) < ($1.at, $1.isNull ? 1 : 0) }
                // All records of one operation replace together: once, or each word would look at each of them.
                sets[set] = sorted.indices.filter { $0 == 0 || sorted[$0] != sorted[$0 - 1] }.map { sorted[$0] }
            }
        }

        /// Whether the link ended between two words that named it.
        ///
        /// - Parameters:
        ///   - earlier: where the record of the earlier one begins; 0 when there is none.
        ///   - place: the later one.
        func haveEnded(_ set: ClearedSet, since earlier: UInt32, before place: StagedListPosition) -> Bool {
            guard let clearings = sets[set] else { return false }
            var (low, high) = (0, clearings.count)
            while low < high {
                let middle = (low + high) / 2
                if clearings[middle].at > earlier { high = middle } else { low = middle + 1 }
            }
            for clearing in clearings[low...] {
                if clearing.at > place.sourceOffset { return false }
                if clearing.isNull || clearing.at != place.operation { return true }
            }
            return false
        }
    }

    /// Takes out what was cleared later than it was said, what another word took away, and what only repeats.
    ///
    /// - Returns: by object and relationship, each element once, in the order in which they come.
    func order(
        _ places: [StagedListPosition], _ cleared: [ClearedSet: Clearing], _ replacements: [StagedReplacement]
    ) -> [StagedListPosition] {
        let said = places.sorted(by: StagedListPosition.isSaidBefore)
        let clearings = ElementClearings(replacements)
        var standing: [Subject: Standing] = [:]
        for (index, place) in said.enumerated() {
            let relationship = plan.model.entities[place.entity].relationships[place.relationship]
            let isToOne = plan.model.inverse(of: relationship).map { !$0.isToMany } ?? false
            let subject = Subject(
                entity: place.entity, relationship: place.relationship, row: isToOne ? nil : place.row,
                element: place.element)
            let row = isClearedByObject(place, cleared) ? nil : place.row
            let known = standing[subject]
            let earlier = known.map { said[$0.last].sourceOffset } ?? 0
            let hasEnded = elementSet(of: place).map { clearings.haveEnded($0, since: earlier, before: place) } ?? false
            // Who is named again stays where it stands.
            if let known, known.row == row, !hasEnded {
                standing[subject]!.last = index
                continue
            }
            standing[subject] = Standing(
                index: index, row: row, isAfresh: isToOne ? known != nil : hasEnded || known?.isAfresh ?? false,
                last: index)
        }
        return standing.values.filter { $0.row != nil && !isClearedByElement(said[$0.last], cleared) }
            .sorted { Self.key(said[$0.index], $0.index) < Self.key(said[$1.index], $1.index) }
            .map { standing in
                var place = said[standing.index]
                place.isAfresh = standing.isAfresh
                return place
            }
    }

    private static func key(_ place: StagedListPosition, _ index: Int) -> (Int, Int, Int, Int) {
        (place.entity, place.relationship, place.row!, index)
    }

    /// Whether the set of the object whose order it is was cleared later. Such a set is numbered anew.
    private func isClearedByObject(_ place: StagedListPosition, _ cleared: [ClearedSet: Clearing]) -> Bool {
        guard let row = place.row, !cleared.isEmpty else { return false }
        let own = ClearedSet(entity: place.entity, row: row, relationship: place.relationship)
        return cleared[own]?.takes(place.element, sourceOffset: place.sourceOffset) ?? false
    }

    /// Whether the set at the other side was cleared later, of the last word on a link.
    private func isClearedByElement(_ place: StagedListPosition, _ cleared: [ClearedSet: Clearing]) -> Bool {
        guard let row = place.row, !cleared.isEmpty, let set = elementSet(of: place) else { return false }
        return cleared[set]?.takes(row, sourceOffset: place.sourceOffset) ?? false
    }

    /// The set at the other side, which the element's own records name.
    private func elementSet(of place: StagedListPosition) -> ClearedSet? {
        let relationship = plan.model.entities[place.entity].relationships[place.relationship]
        guard let inverse = relationship.inverse else { return nil }
        return ClearedSet(entity: plan.destinationTable(of: place), row: place.element, relationship: inverse)
    }
}
