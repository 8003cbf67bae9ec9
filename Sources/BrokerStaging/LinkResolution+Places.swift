internal import BrokerModel

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
    }

    /// Takes out what was cleared later than it was said, what another word took away, and what only repeats.
    ///
    /// - Returns: by object and relationship, each element once, in the order in which they come.
    func order(_ places: [StagedPlace], _ cleared: [ClearedSet: Clearing]) -> [StagedPlace] {
        let said = places.sorted(by: StagedPlace.isSaidBefore)
        var standing: [Subject: Standing] = [:]
        for (index, place) in said.enumerated() {
            let relationship = plan.model.entities[place.entity].relationships[place.relationship]
            let isToOne = plan.model.inverse(of: relationship).map { !$0.isToMany } ?? false
            let subject = Subject(
                entity: place.entity, relationship: place.relationship, row: isToOne ? nil : place.row,
                element: place.element)
            let row = isCleared(place, cleared) ? nil : place.row
            let known = standing[subject]
            // Who is named again stays where it stands.
            if let known, known.row == row { continue }
            standing[subject] = Standing(
                index: index, row: row, isAfresh: isToOne ? known != nil : wasEnded(place, cleared))
        }
        return standing.values.filter { $0.row != nil }
            .sorted { Self.key(said[$0.index], $0.index) < Self.key(said[$1.index], $1.index) }
            .map { standing in
                var place = said[standing.index]
                place.isAfresh = standing.isAfresh
                return place
            }
    }

    private static func key(_ place: StagedPlace, _ index: Int) -> (Int, Int, Int, Int) {
        (place.entity, place.relationship, place.row!, index)
    }

    /// Either side may have cleared the link.
    private func isCleared(_ place: StagedPlace, _ cleared: [ClearedSet: Clearing]) -> Bool {
        guard let row = place.row, !cleared.isEmpty else { return false }
        let own = ClearedSet(entity: place.entity, row: row, relationship: place.relationship)
        if cleared[own]?.takes(place.element, saidAt: place.saidAt) ?? false { return true }
        return clearing(atElementOf: place, cleared)?.takes(row, saidAt: place.saidAt) ?? false
    }

    /// The element's own record had ended all its links with a null.
    private func wasEnded(_ place: StagedPlace, _ cleared: [ClearedSet: Clearing]) -> Bool {
        guard let ended = clearing(atElementOf: place, cleared)?.endedBefore else { return false }
        return ended > 0 && ended <= place.saidAt
    }

    /// How the set at the other side was cleared.
    private func clearing(atElementOf place: StagedPlace, _ cleared: [ClearedSet: Clearing]) -> Clearing? {
        let relationship = plan.model.entities[place.entity].relationships[place.relationship]
        guard let inverse = relationship.inverse, !cleared.isEmpty else { return nil }
        return cleared[ClearedSet(entity: plan.destinationTable(of: place), row: place.element, relationship: inverse)]
    }
}
