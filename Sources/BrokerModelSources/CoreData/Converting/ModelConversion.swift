internal import BrokerJSON
internal import BrokerModel

/// Converts the elements of one Core Data model into a model's document.
struct ModelConversion {
    private let root: SourceElement
    private let source: String
    private let report = ConversionReport()

    init(_ root: SourceElement, source: String) {
        self.root = root
        self.source = source
    }

    /// - Throws: `ModelError` when there is no entity at all, with what is wrong.
    func document() throws(ModelError) -> ModelDocument {
        let modelReport = ElementReport(pointer: "", place: root.place, conversion: report)
        guard root.name == "model" else {
            modelReport.fault("this is no Core Data model: its outermost element is <\(root.name)>, not <model>")
            throw ModelError(faults: report.faults)
        }
        var sources = EntitySources(of: root, report: report)
        guard !sources.entities.isEmpty else {
            if report.faults.isEmpty { modelReport.fault("the model has no entity; add one in Xcode") }
            throw ModelError(faults: report.faults)
        }
        notePassedOver(modelReport)
        let rules = keyRules(of: sources, modelReport)
        let leftOut = readProperties(of: &sources, rules)
        IdentityRules.apply(to: &sources)
        var entities = DocumentWriter(at: root.place)
        for index in sources.entities.indices {
            let entity = sources.entities[index]
            let conversion = EntityConversion(index: index, sources: sources, rules: rules[index], leftOut: leftOut)
            entities.add(entity.name, conversion.value())
        }
        var writer = DocumentWriter(at: root.place)
        writer.add("entities", entities.object)
        return ModelDocument(
            root: writer.object, sources: [source], notes: report.notesInOrder, faults: report.faults)
    }

    /// The parts of a model other than entities.
    private func notePassedOver(_ modelReport: ElementReport) {
        for element in root.children {
            let name = element["name"] ?? ""
            switch element.name {
            case "entity", "elements", "composite", "compositeAttribute": break
            case "configuration":
                modelReport.part(at: element.place).passedOver("the configuration \(name): there is one store")
            case "fetchRequest":
                modelReport.part(at: element.place).leftOut(
                    "the fetch request \(name): a fetch says what it wants itself")
            default:
                modelReport.part(at: element.place).passedOver("<\(element.name)>: Broker does not know this element")
            }
        }
    }
}

// MARK: - User info and properties

extension ModelConversion {
    /// By entity.
    private func keyRules(of sources: EntitySources, _ modelReport: ElementReport) -> [KeyRules] {
        let usesSync = sources.entities.contains { entity in
            entity.userInfo.isOfSync || entity.element.children.contains { UserInfo(of: $0).isOfSync }
        }
        if usesSync {
            modelReport.inferred(
                "the model has user info of Sync's (sync.*, hyper.*), so Sync's names of keys hold in it")
        }
        var usingGroot: Set<Int> = []
        for (index, entity) in sources.entities.enumerated() {
            let hasPath = entity.element.children.contains { UserInfo(of: $0)["JSONKeyPath"] != nil }
            if hasPath { usingGroot.insert(entity.ancestors.last ?? index) }
        }
        return sources.entities.enumerated().map { index, entity in
            KeyRules(usesSync: usesSync, usesGroot: usingGroot.contains(entity.ancestors.last ?? index))
        }
    }

    /// Finds the attributes and relationships that the model is to have.
    ///
    /// - Returns: the ids of relationships that are skipped.
    private func readProperties(of sources: inout EntitySources, _ rules: [KeyRules]) -> Set<[UInt8]> {
        var reading = AttributeReading(model: root)
        var leftOut: Set<[UInt8]> = []
        for index in sources.entities.indices {
            let entity = sources.entities[index]
            sources.entities[index].attributes = reading.attributes(of: entity.element, in: entity.report) {
                rules[index].keys($0, ofEntity: entity.name) ?? [$0.name]
            }
            for element in entity.element.children(named: "relationship") {
                guard let name = element["name"], !name.isEmpty else {
                    entity.report.part(at: element.place).fault("a relationship needs a name; give it one in Xcode")
                    continue
                }
                let report = entity.report.part("relationships", name, at: element.place)
                guard element.flag("transient") != true else {
                    report.leftOut("the relationship is transient: Core Data does not store it either")
                    leftOut.insert(RelationshipConversion.id(entity.name, name))
                    continue
                }
                sources.entities[index].relationships.append(
                    RelationshipSource(name: name, element: element, userInfo: UserInfo(of: element), report: report))
            }
            for element in entity.element.children(named: "fetchedProperty") {
                let name = element["name"] ?? ""
                entity.report.part(at: element.place).leftOut(
                    "the fetched property \(name): it is a fetch, which a client asks for itself")
            }
        }
        return leftOut
    }
}

/// The decisions and faults of one model's conversion. Belongs to one conversion on one thread.
final class ConversionReport {
    private var notes: [ModelNote] = []
    private(set) var faults: [ModelFault] = []

    /// By place; notes of one place in the order in which they were made.
    var notesInOrder: [ModelNote] {
        notes.enumerated()
            .sorted { first, second in
                let (one, other) = (first.element.place, second.element.place)
                return (one.line, one.column, first.offset) < (other.line, other.column, second.offset)
            }
            .map(\.element)
    }

    func add(_ note: ModelNote) { notes.append(note) }
    func add(_ fault: ModelFault) { faults.append(fault) }
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

    func fault(_ message: String) { conversion.add(ModelFault(message, at: modelPlace)) }

    func part(_ names: String..., at place: SourcePlace) -> ElementReport {
        let pointer = names.reduce(pointer) { $0 + "/" + $1.asPointerToken }
        return ElementReport(pointer: pointer, place: place, conversion: conversion)
    }

    private func note(_ kind: ModelNote.Kind, _ message: String) {
        conversion.add(ModelNote(kind, message, at: modelPlace))
    }

    private var modelPlace: ModelPlace {
        ModelPlace(pointer: pointer, source: place.source, line: place.line, column: place.column)
    }
}

/// Makes the values of a part of the document, all of which have the position of their element.
struct DocumentWriter {
    let place: SourcePlace
    private(set) var members: [ModelValue.Member] = []

    init(at place: SourcePlace) { self.place = place }

    var object: ModelValue { ModelValue(.object(members), at: place) }

    mutating func add(_ key: String, _ value: ModelValue?) {
        guard let value else { return }
        members.append(ModelValue.Member(key, at: value.place, value))
    }

    mutating func add(_ key: String, _ text: String?) {
        guard let text else { return }
        add(key, ModelValue(.string(text), at: place))
    }

    mutating func add(_ key: String, _ flag: Bool) { add(key, ModelValue(.bool(flag), at: place)) }

    mutating func add(_ key: String, number: Int) { add(key, ModelValue(.number("\(number)"), at: place)) }

    mutating func add(_ key: String, _ texts: [String]) {
        add(key, ModelValue(.array(texts.map { ModelValue(.string($0), at: place) }), at: place))
    }

    mutating func add(_ key: String, _ lists: [[String]]) {
        let lists = lists.map { list in
            ModelValue(.array(list.map { ModelValue(.string($0), at: place) }), at: place)
        }
        add(key, ModelValue(.array(lists), at: place))
    }
}

/// The positions of values in JSON, from the user info of other libraries.
struct KeyRules {
    /// Sync's default names apply when the model has any key of Sync's: most attributes of such a model need none.
    let usesSync: Bool
    /// In a hierarchy where any attribute or relationship has Groot's key path, only those that have one are mapped.
    let usesGroot: Bool

    /// The key paths of an attribute in order of preference, below all of `prefixes`; nil for what follows from its name,
    /// none for one that no record brings.
    func keys(_ attribute: AttributeSource, ofEntity entity: String) -> [String]? {
        let isPart = attribute.prefixes != nil
        let name = isPart ? attribute.element["name"] ?? attribute.name : attribute.name
        let given = given(attribute.userInfo, name: name, hasGrootSilence: usesGroot && !isPart, on: attribute.report)
        let own = given ?? (usesSync ? syncKeys(ofAttribute: name, entity: entity, attribute.report) : nil)
        guard let prefixes = attribute.prefixes else { return own }
        return prefixes.flatMap { prefix in (own ?? [name]).map { "\(prefix).\($0)" } }
    }

    func keys(ofRelationship name: String, isToMany: Bool, _ userInfo: UserInfo, _ report: ElementReport) -> [String]? {
        if let given = given(userInfo, name: name, hasGrootSilence: usesGroot, on: report) { return given }
        guard usesSync else { return nil }
        let snake = KeyStyle.snakeCase.key(forName: name)
        let keys = Self.unique([snake, name, snake + (isToMany ? "_ids" : "_id")])
        report.inferred("Sync's keys: \(keys.joined(separator: ", "))")
        return keys
    }

    /// The user info's rule; for Groot, a missing one counts where Groot is in use.
    private func given(
        _ userInfo: UserInfo, name: String, hasGrootSilence: Bool, on report: ElementReport
    ) -> [String]? {
        if userInfo.flag("excludeFromImport") {
            report.taken("userInfo excludeFromImport: no record brings it")
            return []
        }
        var found: (key: String, paths: [String])?
        for (key, paths) in candidates(userInfo, name: name) where !paths.isEmpty {
            if let found {
                guard found.paths != paths else { continue }
                report.passedOver("userInfo \(key): \(found.key) goes before it")
            } else {
                found = (key, paths)
                report.taken("userInfo \(key): \(paths.joined(separator: ", "))")
            }
        }
        if let found { return found.paths }
        guard hasGrootSilence else { return nil }
        report.inferred("no JSONKeyPath where others have one: as in Groot, no record brings it")
        return []
    }

    private func candidates(_ userInfo: UserInfo, name: String) -> [(String, [String])] {
        let fallbacks = (0...9).compactMap { userInfo["mappedKeyName.\($0)"] }
        var mapped = userInfo["mappedKeyName"].map { [$0] } ?? []
        if !fallbacks.isEmpty { mapped = (mapped.isEmpty ? [name] : mapped) + fallbacks }
        func single(_ key: String) -> (String, [String]) { (key, userInfo[key].map { [$0] } ?? []) }
        return [
            single("JSONKeyPath"), ("mappedKeyName", Self.unique(mapped)), single("sync.remoteKey"),
            single("hyper.remoteKey"),
        ]
    }

    /// Sync's rules: snake case, the name itself, `remoteID` from `id`, and `userType` from `type`, because Core Data
    /// does not let an attribute be named so.
    private func syncKeys(ofAttribute name: String, entity: String, _ report: ElementReport) -> [String] {
        guard name != "remoteID" else {
            report.inferred("Sync's key of remoteID: id")
            return ["id"]
        }
        var keys = [KeyStyle.snakeCase.key(forName: name), name]
        let prefix = entity.loweringFirst
        for reserved in ["type", "description", "signed"] {
            let prefixed = prefix + reserved.prefix(1).uppercased() + reserved.dropFirst()
            if name == prefixed { keys.insert(reserved, at: 0) }
        }
        keys = Self.unique(keys)
        if keys != [name] { report.inferred("Sync's keys: \(keys.joined(separator: ", "))") }
        return keys
    }

    private static func unique(_ keys: [String]) -> [String] {
        keys.enumerated().filter { index, key in !keys[..<index].contains { $0.hasSameBytes(as: key) } }
            .map(\.element)
    }
}

extension String {
    /// The name `Article` in `articleID`.
    var loweringFirst: String { prefix(1).lowercased() + dropFirst() }
}

/// Writes one relationship in the model's form.
struct RelationshipConversion {
    let source: RelationshipSource
    let owner: Int
    let sources: EntitySources
    let rules: KeyRules
    /// Relationships that the model will not have, by the bytes of entity and name.
    let leftOut: Set<[UInt8]>

    private var element: SourceElement { source.element }
    private var report: ElementReport { source.report }

    static func id(_ entity: String, _ name: String) -> [UInt8] { Array(entity.utf8) + [0] + Array(name.utf8) }

    func value() -> ModelValue {
        var writer = DocumentWriter(at: element.place)
        let destination = addDestination(to: &writer)
        if source.isToMany { writer.add("toMany", true) }
        addInverse(destination, to: &writer)
        if let keys = rules.keys(
            ofRelationship: source.name, isToMany: source.isToMany, source.userInfo, report)
        {
            writer.add("key", keys)
        }
        addDeleteRule(to: &writer)
        if element.flag("ordered") == true {
            if source.isToMany {
                writer.add("ordered", true)
            } else {
                report.passedOver("ordered: the relationship is to-one")
            }
        }
        if let renamed = element["elementID"] ?? element["renamingIdentifier"], !renamed.isEmpty, renamed != source.name
        {
            writer.add("renamedFrom", renamed)
            report.taken("renaming identifier \(renamed)")
        }
        noteWhatIsNotEnforced()
        UserInfoVocabulary.relationship.noteUnfollowed(source.userInfo, on: report)
        return writer.object
    }

    /// The index of the entity that the relationship leads to, nil when there is none; reading reports one that is
    /// named and missing.
    private func addDestination(to writer: inout DocumentWriter) -> Int? {
        guard let name = element["destinationEntity"], !name.isEmpty else {
            report.fault("the relationship has no destination; choose its entity in Xcode")
            // A substitute, so that no further fault is reported.
            writer.add("entity", sources.entities[owner].name)
            return nil
        }
        writer.add("entity", name)
        return sources.index(of: name)
    }

    private func addInverse(_ destination: Int?, to writer: inout DocumentWriter) {
        guard let destination else { return }
        guard let name = element["inverseName"], !name.isEmpty else {
            return report.passedOver("no inverse: the other side does not know of the link")
        }
        if let entity = element["inverseEntity"], !entity.isEmpty {
            let related = sources.index(of: entity).map { sources.isRelated($0, destination) } ?? false
            guard related else {
                let target = sources.entities[destination].name
                report.fault(
                    "the inverse \"\(name)\" is one of \(entity), and the relationship leads to \(target); "
                        + "choose an inverse of \(target) in Xcode")
                return
            }
        }
        let holders = [destination] + sources.entities[destination].ancestors
        guard !holders.contains(where: { leftOut.contains(Self.id(sources.entities[$0].name, name)) }) else {
            return report.leftOut("the inverse \(name): it is skipped itself")
        }
        writer.add("inverse", name)
    }

    private func addDeleteRule(to writer: inout DocumentWriter) {
        guard let rule = element["deletionRule"], !rule.isEmpty else { return }
        let rules = ["Nullify": "nullify", "Cascade": "cascade", "Deny": "deny", "No Action": "noAction"]
        guard let name = rules.first(where: { $0.key.lowercased() == rule.lowercased() })?.value else {
            report.fault("\"\(rule)\" is no delete rule; Core Data has Nullify, Cascade, Deny and No Action")
            return
        }
        if name != "nullify" { writer.add("deleteRule", name) }
    }

    private func noteWhatIsNotEnforced() {
        if element.flag("optional") != true {
            report.leftOut(
                "the relationship is not optional: that is not enforced, so that records may come in any order")
        }
        guard source.isToMany else { return }
        for bound in ["minCount", "maxCount"] {
            guard let text = element[bound], let count = Int(text), count > 0 else { continue }
            report.leftOut("\(bound)=\"\(count)\": how many there are is not enforced")
        }
    }
}
