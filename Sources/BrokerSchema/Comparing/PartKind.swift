internal import BrokerModel

/// The kinds of an entity's parts. Both are matched, retained and compared by the same rules.
package enum PartKind: CaseIterable {
    case attribute, relationship
}

extension Entity {
    /// Indices of the parts that its objects have, inherited ones first.
    func indices(of kind: PartKind) -> [Int] { kind == .attribute ? attributeIndices : relationshipIndices }

    func names(of kind: PartKind) -> [String] {
        kind == .attribute ? attributes.map(\.name) : relationships.map(\.name)
    }

    func name(of kind: PartKind, _ index: Int) -> String {
        kind == .attribute ? attributes[index].name : relationships[index].name
    }

    /// Among those that its objects have.
    func index(of kind: PartKind, named name: String) -> Int? {
        kind == .attribute ? index(ofAttribute: name) : index(ofRelationship: name)
    }

    func renamedFrom(_ kind: PartKind, _ index: Int) -> String? {
        kind == .attribute ? attributes[index].renamedFrom : relationships[index].renamedFrom
    }
}
