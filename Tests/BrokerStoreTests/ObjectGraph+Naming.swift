/// The names in a job's text, before they are compared with the stored objects: records and bare keys in their order.
struct JobReading {
    struct Rejection {
        let code: String
        let path: String
        let offset: Int
    }

    /// A record or a bare key: it names an object, and says something about it.
    struct Name {
        let offset: Int
        let path: String
        let operation: Int
        let entity: String
        /// The record that it is nested in, by its place among the names.
        let parent: Int?
        /// The treatment of a bare key whose object is absent; nil for a record.
        let missing: RandomModel.Missing?
        /// nil: a new object, or no object at all because of a fault.
        var identity: [String]?
        /// The first fault in its text that was found without looking at what is there.
        var fault: Rejection?
        /// nil clears.
        var values: [String: String?] = [:]
        var words: [Word] = []
    }

    /// A record's value for one relationship.
    struct Word {
        let relationship: RandomModel.Relationship
        /// Names, by their places; nil is `null`.
        let elements: [Int]?

    }

    let model: RandomModel
    private(set) var names: [Name] = []

    init(_ job: RandomJob, _ model: RandomModel) {
        self.model = model
        var text = ""
        guard case .object(let operations) = PlacedTree(job.tree, writing: &text).form else { return }
        for (operation, member) in operations.enumerated() {
            let path = "/\(member.key)"
            if case .array(let records) = member.value.form {
                for (index, record) in records.enumerated() {
                    read(record, member.key, "\(path)/\(index)", operation: operation, parent: nil)
                }
            } else {
                read(member.value, member.key, path, operation: operation, parent: nil)
            }
        }
    }

    /// Nested in each other, from the outermost one.
    func ancestors(_ name: Int) -> [Int] {
        names[name].parent.map { ancestors($0) + [$0] } ?? []
    }

    // MARK: - Records

    private mutating func read(_ value: PlacedTree, _ entity: String, _ path: String, operation: Int, parent: Int?) {
        let place = names.count
        var name = Name(
            offset: value.offset, path: path, operation: operation, entity: entity, parent: parent, missing: nil)
        guard case .object = value.form else {
            name.fault = Rejection(code: "invalidValue", path: path, offset: value.offset)
            names.append(name)
            return
        }
        var faults: [Rejection] = []
        readValues(value, &name, &faults)
        name.fault = faults.min { $0.offset < $1.offset }
        // The contract does not state which fault is reported for a record with several.
        if faults.isEmpty, name.identity == nil, model.entity(entity).isAbstract {
            name.fault = Rejection(code: "unmappable", path: path, offset: value.offset)
        }
        names.append(name)
        // A record's relationships are applied in their order in the record; the contract leaves that open.
        let relationships = model.entity(entity).relationships.compactMap { relationship in
            value[relationship.name].map { (relationship, $0) }
        }
        for (relationship, json) in relationships.sorted(by: { $0.1.offset < $1.1.offset }) {
            let word = read(json, relationship, "\(path)/\(relationship.name)", operation: operation, parent: place)
            names[place].words.append(word)
        }
    }

    private func readValues(_ record: PlacedTree, _ name: inout Name, _ faults: inout [Rejection]) {
        let entity = model.entity(name.entity)
        var wrongParts = 0
        for attribute in entity.attributes {
            guard let (json, path) = json(attribute, record, name.path) else { continue }
            let isIdentity = entity.identity.contains(attribute.name)
            switch convert(json, attribute) {
            case .value(let value): name.values[attribute.name] = .some(value)
            case .missing: break
            case .null:
                if attribute.isRequired {
                    faults.append(Rejection(code: "missingValue", path: path, offset: json.offset))
                } else if !isIdentity {
                    name.values[attribute.name] = .some(nil)
                }
            case .fault(let code):
                faults.append(Rejection(code: code, path: path, offset: json.offset))
                wrongParts += isIdentity ? 1 : 0
            }
        }
        let identity = entity.identity.compactMap { name.values[$0] ?? nil }
        if identity.count == entity.identity.count, !identity.isEmpty {
            name.identity = identity
        } else if entity.needsIdentity, identity.count + wrongParts < entity.identity.count {
            faults.append(Rejection(code: "missingIdentity", path: name.path, offset: name.offset))
        }
    }

    /// The most preferred value that is not null, else a null that was there.
    private func json(
        _ attribute: RandomModel.Attribute, _ record: PlacedTree, _ path: String
    ) -> (PlacedTree, path: String)? {
        var found = record[attribute.name].map { ($0, "\(path)/\(attribute.name)") }
        guard attribute.hasFallback, found?.0.isNull ?? true, let around = record["\(attribute.name)Of"] else {
            return found
        }
        // A null in the place of an object clears what is below it.
        if around.isNull, found == nil { found = (around, "\(path)/\(attribute.name)Of") }
        if let below = around["it"], found == nil || !below.isNull { found = (below, "\(path)/\(attribute.name)Of/it") }
        return found
    }

    // MARK: - Values

    private enum Conversion {
        case value(String), null, missing
        case fault(code: String)
    }

    private func convert(_ json: PlacedTree, _ attribute: RandomModel.Attribute) -> Conversion {
        if json.isNull { return .null }
        let conversion = convertUnforgiven(json, attribute)
        guard case .fault = conversion else { return conversion }
        switch attribute.onInvalid {
        case "skip": return .missing
        case "null": return .null
        default: return conversion
        }
    }

    private func convertUnforgiven(_ json: PlacedTree, _ attribute: RandomModel.Attribute) -> Conversion {
        guard case .literal(let literal) = json.form else { return .fault(code: "invalidValue") }
        if attribute.name == "mark" { return .value(literal) }
        guard let stored = attribute.type.stored(literal) else { return .fault(code: "invalidValue") }
        return attribute.limit?.allows(stored) ?? true ? .value(stored) : .fault(code: "validationFailed")
    }

    // MARK: - Relationships

    private mutating func read(
        _ json: PlacedTree, _ relationship: RandomModel.Relationship, _ path: String, operation: Int, parent: Int
    ) -> Word {
        if json.isNull { return Word(relationship: relationship, elements: nil) }
        guard relationship.isToMany, case .array(let array) = json.form else {
            return Word(
                relationship: relationship,
                elements: [readElement(json, relationship, path, operation: operation, parent: parent)])
        }
        var elements: [Int] = []
        for (index, element) in array.enumerated() {
            elements.append(
                readElement(element, relationship, "\(path)/\(index)", operation: operation, parent: parent))
        }
        return Word(relationship: relationship, elements: elements)
    }

    private mutating func readElement(
        _ json: PlacedTree, _ relationship: RandomModel.Relationship, _ path: String, operation: Int, parent: Int
    ) -> Int {
        let place = names.count
        if case .object = json.form {
            read(json, relationship.destination, path, operation: operation, parent: parent)
            return place
        }
        var name = Name(
            offset: json.offset, path: path, operation: operation, entity: relationship.destination, parent: parent,
            missing: relationship.missing)
        let destination = model.entity(relationship.destination)
        // Null among the elements of an array is no key of anything; an entity without a single identity has no bare keys.
        if json.isNull || destination.identity.count != 1 {
            name.fault = Rejection(code: "invalidValue", path: path, offset: json.offset)
        } else {
            switch convertUnforgiven(json, destination.attribute(destination.identity[0])) {
            case .value(let value): name.identity = [value]
            case .fault(let code): name.fault = Rejection(code: code, path: path, offset: json.offset)
            case .null, .missing: break
            }
        }
        names.append(name)
        return place
    }
}
