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
