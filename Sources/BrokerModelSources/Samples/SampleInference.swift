package import BrokerJSON
package import BrokerModel

/// Infers a model from sample records.
///
/// Not for several threads at once. Memory: a hash for each value that may identify an object, and the shapes, which are
/// bounded.
package struct SampleInference {
    private let entity: String
    private let shape: ObjectShape
    /// The records are the values of objects, whose keys identify them.
    private var isMap = false

    /// - Parameters:
    ///   - entity: the name that the records' entity gets.
    ///   - readsTexts: the values are of a format that has nothing but texts: CSV, XML, forms.
    ///   - givenKeys: keys that a person says identify the records.
    package init(entity: String, readsTexts: Bool = false, givenKeys: Set<String> = []) {
        self.entity = entity
        shape = ObjectShape(depth: 0, isSingle: true, readsTexts: readsTexts, givenKeys: givenKeys)
    }

    /// Records that were seen.
    package private(set) var recordCount = 0

    /// Keys of all records together that a model can name.
    package static var mostRecordKeys: Int { ObjectShape.mostRecordKeys }

    /// The records have more keys than a model can name.
    package var isTooWide: Bool { shape.further != nil }

    /// Adds a record, or each record of an array. Values that are not objects are ignored.
    ///
    /// The value is not needed any more when this returns.
    ///
    /// - Parameter isMap: the values of the object's keys are the records.
    package mutating func observe(_ value: JSONValue, isMap: Bool = false) {
        switch value.kind {
        case .object where isMap:
            self.isMap = true
            for (_, member) in value.members { observe(member) }
        case .object:
            shape.observe(value)
            recordCount += 1
        case .array: for element in value.elements { observe(element) }
        default: break
        }
    }

    /// How many records repeat the identity that an entity of a model has and have other values, though no person has said that
    /// it identifies.
    package func contradictions(of entity: Entity) -> Int {
        guard entity.isIdentityGuessed else { return 0 }
        return shape.contradictions(of: entity.identity.map { entity.attributes[$0].recordPaths })
    }

    /// How many records have no value for the identity of an entity of a model, though no person has said that it identifies. What
    /// may be around a record is none of it.
    package func missing(of entity: Entity) -> Int {
        let root = entity.root ?? entity.name.prefix(1).lowercased() + entity.name.dropFirst()
        guard entity.isIdentityGuessed, !isMap, shape.keys != [root] else { return 0 }
        return shape.missing(of: entity.identity.map { entity.attributes[$0].recordPaths })
    }

    /// The model, with a `description` on each guess. This ends the inference.
    ///
    /// - Parameters:
    ///   - identities: by entity, the key paths that a person named, or a word of ``GivenIdentity``.
    ///   - ignored: by entity, the key paths that a person ignores.
    ///   - model: the model that the samples extend; nil when there is none.
    ///   - style: the names of new tables; nil for those of the entities, or as the tables of the model are named.
    package consuming func model(
        identities: [String: [String]] = [:], ignored: [String: [String]] = [:],
        extending model: Model? = nil, _ style: NameStyle? = nil
    ) -> InferenceResult {
        let reading = ShapeReading(
            shape, named: entity, given: identities, ignored: ignored, extending: model.map(KnownModel.init))
        let design = ModelDesign(shape, reading, isMap: isMap)
        let known = model.flatMap { model in NameStyle.allCases.first { $0.isThat(of: model) } }
        return DesignWriter(design, readsTexts: shape.readsTexts, style ?? known).result(of: recordCount)
    }
}

extension ModelExtension {
    /// Attributes for the keys that only `_extra` has, of the types that all their values fit.
    ///
    /// - Parameters:
    ///   - readsTexts: the values were sent in a format that has nothing but texts.
    ///   - isWanted: whether a key path of an entity gets an attribute.
    ///   - forEach: calls its argument with the entity and the `_extra` of each object that has one.
    package init(
        promotingIn model: Model, readsTexts: Bool = false,
        _ isWanted: (_ entity: String, _ attribute: String) -> Bool = { _, _ in true },
        of forEach: (_ body: (_ entity: String, _ json: UnsafeBufferPointer<UInt8>) -> Void) throws -> Void
    ) rethrows {
        self.init()
        var samples: [Int: SampleInference] = [:]
        try forEach { name, json in
            guard let entity = model.index(ofEntity: name), model.entities[entity].extra != nil,
                let values = try? JSONDocument(parsing: JSONText(copying: Array(json)))
            else { return }
            samples[entity, default: SampleInference(entity: name, readsTexts: readsTexts)].observe(values.root)
        }
        for (index, inference) in samples.sorted(by: { $0.key < $1.key }) {
            let entity = model.entities[index]
            let room = SampleInference.mostRecordKeys - entity.attributeIndices.count
            let attributes = inference.model(extending: model).extension.attributes(of: entity.name) {
                isWanted(entity.name, $0)
            }
            add(attributes.prefix(room))
        }
    }
}
