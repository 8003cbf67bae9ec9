internal import BrokerModel

/// An attribute or a relationship of the stored model, found by its table: the entities of a hierarchy share their parts.
package struct StoredPart: Hashable {
    let kind: PartKind
    /// The topmost entity of its hierarchy.
    let topmost: Int
    let index: Int
}

extension Model {
    func part(_ kind: PartKind, _ index: Int, of entity: Int) -> StoredPart {
        StoredPart(kind: kind, topmost: topmost(of: entity), index: index)
    }

    /// The part itself, and the inverse of a relationship: the two have the same links.
    func both(_ part: StoredPart) -> [StoredPart] {
        guard part.kind == .relationship else { return [part] }
        let relationship = entities[part.topmost].relationships[part.index]
        guard let inverse = relationship.inverse else { return [part] }
        return [part, self.part(.relationship, inverse, of: relationship.destination)]
    }
}
