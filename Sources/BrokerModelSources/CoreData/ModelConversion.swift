internal import BrokerJSON
internal import BrokerModel

/// Converts the elements of one Core Data model into a model's document. Made for one conversion.
struct ModelConversion {
    let root: SourceElement
    private let source: String
    private let report = ConversionReport()
    var entities: [EntitySource] = []
    private var indices: [ExactText: Int] = [:]
    /// The relationships that are skipped: entity and name.
    private var skipped: Set<[ExactText]> = []

    init(_ root: SourceElement, source: String) {
        self.root = root
        self.source = source
    }

    /// - Throws: `ModelError` when there is no entity at all, with what is wrong.
    consuming func document() throws(ModelError) -> ModelDocument {
        let modelReport = ElementReport(pointer: "", place: root.place, conversion: report)
        guard root.name == "model" else {
            modelReport.fault("this is no Core Data model: its outermost element is <\(root.name)>, not <model>")
            throw ModelError(faults: report.faults)
        }
        readEntities()
        guard !entities.isEmpty else {
            if report.faults.isEmpty { modelReport.fault("the model has no entity; add one in Xcode") }
            throw ModelError(faults: report.faults)
        }
        noteOtherElements(modelReport)
        chooseKeyRules(modelReport)
        readProperties()
        chooseIdentities()
        var written = DocumentWriter(at: root.place)
        for index in entities.indices { written.add(entities[index].name, value(ofEntity: index)) }
        var writer = DocumentWriter(at: root.place)
        writer.add("entities", written.object)
        return ModelDocument(
            root: writer.object, sources: [source], notes: report.notesInOrder, faults: report.faults)
    }

    /// The parts of a model other than entities.
    private func noteOtherElements(_ modelReport: ElementReport) {
        for element in root.children {
            let name = element["name"] ?? ""
            let report = modelReport.part(at: element.place)
            switch element.name {
            case "entity", "elements", "composite", "compositeAttribute": break
            case "configuration": report.passedOver("the configuration \(name): there is one store")
            case "fetchRequest": report.leftOut("the fetch request \(name): a fetch says what it wants itself")
            default: report.passedOver("<\(element.name)>: Broker does not know this element")
            }
        }
    }

    // MARK: - Entities

    private mutating func readEntities() {
        let report = ElementReport(pointer: "/entities", place: root.place, conversion: report)
        for element in root.children(named: "entity") {
            guard let name = element.text("name") else {
                report.part(at: element.place).fault("an entity needs a name; give it one in Xcode")
                continue
            }
            // Another one of that name is reported by the reader, which sees both in the document.
            if indices[name] == nil { indices[name] = entities.count }
            entities.append(
                EntitySource(
                    name: name, element: element, userInfo: UserInfo(of: element),
                    report: report.part(name, at: element.place)))
        }
        let parents = entities.map { $0.element.text("parentEntity").flatMap(index) }
        for index in entities.indices { entities[index].ancestors = ancestors(of: index, parents) }
    }

    /// Bounds what a long line of parents costs, which grows with its square.
    private static let mostAncestors = 64

    private func ancestors(of index: Int, _ parents: [Int?]) -> [Int] {
        var ancestors: [Int] = []
        var seen: Set<Int> = [index]
        var next = parents[index]
        while let parent = next, seen.insert(parent).inserted {
            guard ancestors.count < Self.mostAncestors else {
                entities[index].report.fault(
                    "the entity has more than \(Self.mostAncestors) ancestors; no model needs them")
                break
            }
            ancestors.append(parent)
            next = parents[parent]
        }
        return ancestors
    }

    func index(of name: String) -> Int? { indices[name] }

    /// The attribute that an entity's objects have: its own, or an inherited one.
    func attribute(_ name: String, of entity: EntitySource) -> AttributeSource? {
        if let own = entity.attribute(named: name) { return own }
        return entity.ancestors.lazy.compactMap { entities[$0].attribute(named: name) }.first
    }

    private mutating func chooseKeyRules(_ modelReport: ElementReport) {
        let usesSync = entities.contains { entity in
            entity.userInfo.isOfSync || entity.element.children.contains { UserInfo(of: $0).isOfSync }
        }
        if usesSync {
            modelReport.inferred(
                "the model has user info of Sync's (sync.*, hyper.*), so Sync's names of keys hold in it")
        }
        let topmost = entities.indices.map { entities[$0].ancestors.last ?? $0 }
        let usingGroot = Set(
            entities.indices.filter { index in
                entities[index].element.children.contains { UserInfo(of: $0)["JSONKeyPath"] != nil }
            }.map { topmost[$0] })
        for index in entities.indices {
            entities[index].keyRules = KeyRules(usesSync: usesSync, usesGroot: usingGroot.contains(topmost[index]))
        }
    }

    /// Finds the attributes and relationships that the model is to have.
    private mutating func readProperties() {
        var reading = AttributeReading(model: root)
        for index in entities.indices {
            let entity = entities[index]
            entities[index].attributes = reading.attributes(of: entity)
            for element in entity.element.children(named: "relationship") {
                guard let name = element.text("name") else {
                    entity.report.part(at: element.place).fault("a relationship needs a name; give it one in Xcode")
                    continue
                }
                let report = entity.report.part("relationships", name, at: element.place)
                guard element.flag("transient") != true else {
                    report.leftOut("the relationship is transient: Core Data does not store it either")
                    skipped.insert([entity.name, name].map(ExactText.init))
                    continue
                }
                entities[index].relationships.append(
                    RelationshipSource(name: name, element: element, userInfo: UserInfo(of: element), report: report))
            }
            for element in entity.element.children(named: "fetchedProperty") {
                entity.report.part(at: element.place).leftOut(
                    "the fetched property \(element["name"] ?? ""): it is a fetch, which a client asks for itself")
            }
        }
    }
}

// MARK: - Writing

extension ModelConversion {
    private func value(ofEntity index: Int) -> ModelValue {
        let entity = entities[index]
        var writer = DocumentWriter(at: entity.element.place)
        writer.add("parent", entity.element.text("parentEntity"))
        if entity.element.flag("isAbstract") == true { writer.add("abstract", true) }
        if entity.element["abstract"] != nil { entity.report.passedOver("abstract: Core Data reads isAbstract") }
        writer.addRenamed(from: entity.element, to: entity.name, entity.report)
        if !entity.identity.isEmpty { writer.add("identity", entity.identity) }
        var attributes = DocumentWriter(at: entity.element.place)
        for attribute in entity.attributes {
            let conversion = AttributeConversion(
                source: attribute, keys: entity.keyRules.keys(of: attribute, in: entity.name),
                isIdentity: entity.identity.contains(attribute.name))
            attributes.add(attribute.name, conversion.value())
        }
        writer.add("attributes", attributes.object)
        var relationships = DocumentWriter(at: entity.element.place)
        for relationship in entity.relationships {
            relationships.add(relationship.name, value(of: relationship, owner: entity))
        }
        writer.add("relationships", nonEmpty: relationships)
        writer.add("unique", lists: uniqueLists(entity))
        writer.add("indexes", lists: indexLists(entity))
        entity.userInfo.noteUnfollowed(as: .entity, on: entity.report)
        return writer.object
    }

    private func uniqueLists(_ entity: EntitySource) -> [[String]] {
        entity.uniquenessConstraints.enumerated().compactMap { index, names in
            guard index != entity.identityConstraint, !names.isEmpty, names != entity.identity else { return nil }
            guard let other = names.first(where: { attribute($0, of: entity) == nil }) else { return names }
            entity.report.leftOut(
                "the uniqueness constraint over \(names.joined(separator: ", ")): \(other) is no attribute that is stored"
            )
            return nil
        }
    }

    /// The names of `fetchIndex`, and of its predecessor `compoundIndex`.
    private func indexLists(_ entity: EntitySource) -> [[String]] {
        var lists: [[String]] = []
        func add(_ names: [String], _ what: String) {
            guard !names.isEmpty else { return }
            if names.count == 1, entity.relationships.contains(where: { $0.name.hasSameBytes(as: names[0]) }) {
                return entity.report.passedOver("\(what): a relationship has an index anyway")
            }
            if let other = names.first(where: { attribute($0, of: entity) == nil }) {
                return entity.report.leftOut("\(what): \(other) is no attribute that is stored")
            }
            if !lists.contains(names) { lists.append(names) }
        }
        for index in entity.element.children(named: "fetchIndex") {
            let elements = index.children(named: "fetchIndexElement")
            let what = "the index \(index["name"] ?? "")"
            if elements.contains(where: { $0["type"]?.lowercased() == "rtree" }) {
                entity.report.leftOut("\(what): Broker makes no R-trees")
            } else if elements.contains(where: { $0["property"] == nil }) {
                entity.report.leftOut("\(what): Broker indexes attributes, not expressions")
            } else {
                add(elements.compactMap { $0["property"] }, what)
            }
        }
        for index in entity.element.children(named: "compoundIndexes").flatMap({ $0.children(named: "compoundIndex") })
        {
            let names = index.children(named: "index").compactMap { $0["value"] }
            add(names, "the index over \(names.joined(separator: ", "))")
        }
        return lists
    }

    private func value(of relationship: RelationshipSource, owner: EntitySource) -> ModelValue {
        let (element, report) = (relationship.element, relationship.report)
        var writer = DocumentWriter(at: element.place)
        if let name = element.text("destinationEntity") {
            writer.add("entity", name)
        } else {
            report.fault("the relationship has no destination; choose its entity in Xcode")
            // A substitute, so that no further fault is reported.
            writer.add("entity", owner.name)
        }
        if relationship.isToMany { writer.add("toMany", true) }
        writer.add("inverse", inverse(of: relationship))
        writer.addKey(owner.keyRules.keys(of: relationship), of: element, relationship.name)
        addDeleteRule(of: relationship, to: &writer)
        if element.flag("ordered") == true {
            if relationship.isToMany {
                writer.add("ordered", true)
            } else {
                report.passedOver("ordered: the relationship is to-one")
            }
        }
        writer.addRenamed(from: element, to: relationship.name, report)
        if element.flag("optional") != true {
            report.leftOut(
                "the relationship is not optional: that is not enforced, so that records may come in any order")
        }
        for bound in ["minCount", "maxCount"] where relationship.isToMany {
            guard let text = element[bound], let count = Int(text), count > 0 else { continue }
            report.leftOut("\(bound)=\"\(count)\": how many there are is not enforced")
        }
        relationship.userInfo.noteUnfollowed(as: .relationship, on: report)
        return writer.object
    }

    private func inverse(of relationship: RelationshipSource) -> String? {
        let (element, report) = (relationship.element, relationship.report)
        // Reading reports a destination that is named and missing.
        guard let destination = element.text("destinationEntity").flatMap(index) else { return nil }
        guard let name = element.text("inverseName") else {
            report.passedOver("no inverse: the other side does not know of the link")
            return nil
        }
        let target = entities[destination]
        if let entity = element.text("inverseEntity") {
            // They must be in one line of parents.
            let isRelated = index(of: entity).map { other in
                other == destination || target.ancestors.contains(other)
                    || entities[other].ancestors.contains(destination)
            }
            guard isRelated == true else {
                report.fault(
                    "the inverse \"\(name)\" is one of \(entity), and the relationship leads to \(target.name); "
                        + "choose an inverse of \(target.name) in Xcode")
                return nil
            }
        }
        let holders = [target] + target.ancestors.map { entities[$0] }
        guard !holders.contains(where: { skipped.contains([$0.name, name].map(ExactText.init)) }) else {
            report.leftOut("the inverse \(name): it is skipped itself")
            return nil
        }
        return name
    }

    private func addDeleteRule(of relationship: RelationshipSource, to writer: inout DocumentWriter) {
        guard let rule = relationship.element.text("deletionRule") else { return }
        switch rule.lowercased() {
        case "nullify": break
        case "cascade": writer.add("deleteRule", "cascade")
        case "deny": writer.add("deleteRule", "deny")
        case "no action": writer.add("deleteRule", "noAction")
        default:
            relationship.report.fault(
                "\"\(rule)\" is no delete rule; Core Data has Nullify, Cascade, Deny and No Action")
        }
    }
}

extension DocumentWriter {
    /// A renaming identifier is about stores alone: records have the name, which is written where another one would follow.
    mutating func addKey(_ keys: [String]?, of element: SourceElement, _ name: String) {
        if let keys = keys ?? element.renamed(to: name).map({ _ in [name] }) { add("key", keyPaths: keys) }
    }

    mutating func addRenamed(from element: SourceElement, to name: String, _ report: ElementReport) {
        guard let renamed = element.renamed(to: name) else { return }
        add("renamedFrom", renamed)
        report.taken("renaming identifier \(renamed)")
    }
}

extension SourceElement {
    /// The earlier name of a part; nil when it has none, or the same.
    func renamed(to name: String) -> String? {
        guard let renamed = self["elementID"] ?? self["renamingIdentifier"], !renamed.isEmpty, renamed != name else {
            return nil
        }
        return renamed
    }
}

/// An entity of the XML with what is known of it before it is written.
struct EntitySource {
    let name: String
    let element: SourceElement
    let userInfo: UserInfo
    let report: ElementReport
    /// From its parent up; ends where a parent is missing, and where the parents go around in a circle.
    var ancestors: [Int] = []
    var keyRules = KeyRules(usesSync: false, usesGroot: false)
    var attributes: [AttributeSource] = []
    var relationships: [RelationshipSource] = []
    /// Names of attributes.
    var identity: [String] = []
    /// The uniqueness constraint that became the identity.
    var identityConstraint: Int?

    func attribute(named name: String) -> AttributeSource? { attributes.first { $0.name.hasSameBytes(as: name) } }

    /// Names of attributes or relationships.
    var uniquenessConstraints: [[String]] {
        element.children(named: "uniquenessConstraints").flatMap { $0.children(named: "uniquenessConstraint") }
            .map { $0.children(named: "constraint").compactMap { $0["value"] } }
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

/// The decisions and faults of one model's conversion. Belongs to one conversion on one thread.
final class ConversionReport {
    fileprivate var notes: [ModelNote] = []
    fileprivate(set) var faults: [ModelFault] = []

    /// By place; notes of one place in the order in which they were made.
    var notesInOrder: [ModelNote] {
        notes.enumerated()
            .sorted { first, second in
                let (one, other) = (first.element.place, second.element.place)
                return (one.line, one.column, first.offset) < (other.line, other.column, second.offset)
            }
            .map(\.element)
    }
}

/// Adds notes and faults about one element of the model: its pointer in the document, and its place in the XML.
struct ElementReport {
    let pointer: String
    let place: SourcePlace
    let conversion: ConversionReport

    func taken(_ message: String) { note(.taken, message) }
    func inferred(_ message: String) { note(.inferred, message) }
    func leftOut(_ message: String) { note(.leftOut, message) }
    func passedOver(_ message: String) { note(.passedOver, message) }

    func fault(_ message: String) { conversion.faults.append(ModelFault(message, at: modelPlace)) }

    func part(_ names: String..., at place: SourcePlace) -> ElementReport {
        let pointer = names.reduce(pointer) { $0 + "/" + $1.asPointerToken }
        return ElementReport(pointer: pointer, place: place, conversion: conversion)
    }

    private func note(_ kind: ModelNote.Kind, _ message: String) {
        conversion.notes.append(ModelNote(kind, message, at: modelPlace))
    }

    private var modelPlace: ModelPlace {
        ModelPlace(pointer: pointer, source: place.source, line: place.line, column: place.column)
    }
}
