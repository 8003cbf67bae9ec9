internal import BrokerModel

/// An entity of the XML with what is known of it before it is written.
struct EntitySource {
    let name: String
    let element: SourceElement
    let userInfo: UserInfo
    let report: ElementReport
    /// Its index; nil for one without a parent, and where the parent is missing.
    var parent: Int?
    /// From its parent up; ends where the parents go around in a circle.
    var ancestors: [Int] = []
    var attributes: [AttributeSource] = []
    var relationships: [RelationshipSource] = []
    /// Names of attributes.
    var identity: [String] = []
    /// The uniqueness constraint that became the identity.
    var identityConstraint: Int?

    func attribute(named name: String) -> AttributeSource? {
        attributes.first { $0.name.hasSameBytes(as: name) }
    }
}

/// A relationship that the model is to have.
struct RelationshipSource {
    let name: String
    let element: SourceElement
    let userInfo: UserInfo
    let report: ElementReport

    /// Files of the field say `toMany`, or how many there may be: `maxCount="1"` is to-one, more or 0 (any number) is not.
    var isToMany: Bool {
        element.flag("toMany") ?? (element["maxCount"].map { $0 != "1" } ?? false)
    }
}

/// All entities of a model, by index and by name.
struct EntitySources {
    var entities: [EntitySource] = []
    private var indices: [[UInt8]: Int] = [:]

    init(of model: SourceElement, report: ConversionReport) {
        for element in model.children(named: "entity") {
            let root = ElementReport(pointer: "/entities", place: element.place, conversion: report)
            guard let name = element["name"], !name.isEmpty else {
                root.fault("an entity needs a name; give it one in Xcode")
                continue
            }
            let entity = EntitySource(
                name: name, element: element, userInfo: UserInfo(of: element),
                report: root.part(name, at: element.place))
            // Another one of that name is reported by the reader, which sees both in the document.
            if indices[Array(name.utf8)] == nil { indices[Array(name.utf8)] = entities.count }
            entities.append(entity)
        }
        for index in entities.indices { entities[index].parent = parent(of: entities[index]) }
        for index in entities.indices { entities[index].ancestors = ancestors(of: index) }
    }

    func index(of name: String) -> Int? { indices[Array(name.utf8)] }

    var names: [String] { entities.map(\.name) }

    /// Whether the entities are in one line of parents.
    func isRelated(_ first: Int, _ second: Int) -> Bool {
        first == second || entities[first].ancestors.contains(second) || entities[second].ancestors.contains(first)
    }

    private func parent(of entity: EntitySource) -> Int? {
        guard let name = entity.element["parentEntity"], !name.isEmpty else { return nil }
        return index(of: name)
    }

    private func ancestors(of index: Int) -> [Int] {
        var ancestors: [Int] = []
        var seen: Set<Int> = [index]
        var next = entities[index].parent
        while let parent = next, seen.insert(parent).inserted {
            guard ancestors.count < Self.mostAncestors else {
                entities[index].report.fault(
                    "the entity has more than \(Self.mostAncestors) ancestors; no model needs them")
                break
            }
            ancestors.append(parent)
            next = entities[parent].parent
        }
        return ancestors
    }

    /// Bounds what a long line of parents costs, which grows with its square.
    private static let mostAncestors = 64
}
