/// The assertions of one operation's text, before they are compared with the objects.
struct OperationReading {
    struct Fault: Equatable {
        let code: String
        let path: String
        let entity: String
    }

    /// A record or a bare key: it names an object, and says something about it.
    struct Name {
        let path: String
        let entity: GraphModel.Entity
        /// The record that it is nested in, by its place among the names.
        let parent: Int?
        var isBareKey = false
        /// nil: a new object, or an unknown one.
        var identity: [String]?
        /// The first fault in its text.
        var fault: Fault?
        var values: [(attribute: String, value: String?)] = []
        /// nil: null.
        var words: [(relationship: GraphModel.Relationship, elements: [Int]?)] = []
    }

    let operation: RandomOperation
    let path: String
    /// In the order in which they begin in the text.
    private(set) var names: [Name] = []
    /// The faults of the operation's own keys, which precede its records.
    private(set) var keyFaults: [Fault] = []

    init(_ operation: RandomOperation, path: String) {
        self.operation = operation
        self.path = path
        switch operation.action {
        case .process(nil), .sync:
            for (index, record) in operation.records.enumerated() { read(record, "\(path)/json/\(index)", nil) }
        case .process(let object?):
            readKey(object, "\(path)/object")
            read(operation.records[0], "\(path)/json", nil, isSubject: true)
        case .relate(let object):
            readKey(object, "\(path)/object")
            let (relationship, value) = operation.records[0].links[0]
            names.append(Name(path: path, entity: operation.entity, parent: nil))
            let elements = read(value, "\(path)/json", 0)
            names[0].words.append((relationship, elements))
        case .delete(let keys):
            for (index, key) in keys.enumerated() { readKey(key, "\(path)/objects/\(index)") }
        case .deleteMatching: break
        }
    }

    var faults: [Fault] { keyFaults + names.compactMap(\.fault) }

    /// Nested in each other, from the outermost one.
    func ancestors(_ place: Int) -> [Int] { names[place].parent.map { ancestors($0) + [$0] } ?? [] }

    private mutating func readKey(_ key: [String], _ path: String) {
        guard key.contains(GraphModel.Entity.wrong) else { return }
        keyFaults.append(Fault(code: "invalidValue", path: path, entity: operation.entity.name))
    }

    private mutating func read(_ record: GraphRecord, _ path: String, _ parent: Int?, isSubject: Bool = false) {
        let place = names.count
        let entity = record.entity
        var name = Name(path: path, entity: entity, parent: parent, identity: record.identity, values: record.values)
        func note(_ code: String, _ path: String) {
            if name.fault == nil { name.fault = Fault(code: code, path: path, entity: entity.name) }
        }
        if record.identity == nil, !entity.identity.isEmpty, !isSubject { note("missingIdentity", path) }
        for (attribute, value) in zip(entity.identity, record.identity ?? []) where value == GraphModel.Entity.wrong {
            note("invalidValue", "\(path)/\(attribute)")
            name.identity = nil
        }
        for (attribute, value) in record.values {
            if value == GraphModel.Entity.wrong { note("invalidValue", "\(path)/\(attribute)") }
            if value == nil, attribute == entity.required { note("missingValue", "\(path)/\(attribute)") }
        }
        names.append(name)
        for (relationship, value) in record.links {
            let elements = read(value, "\(path)/\(relationship.name)", place)
            names[place].words.append((relationship, elements))
        }
    }

    /// - Returns: the places of a value's elements; nil for null.
    private mutating func read(_ value: GraphValue, _ path: String, _ parent: Int) -> [Int]? {
        let place = names.count
        switch value {
        case .null: return nil
        case .record(let record):
            read(record, path, parent)
            return [place]
        case .key(let entity, let key):
            var name = Name(path: path, entity: entity, parent: parent, isBareKey: true, identity: key)
            if key.contains(GraphModel.Entity.wrong) {
                name.identity = nil
                name.fault = Fault(code: "invalidValue", path: path, entity: entity.name)
            }
            names.append(name)
            return [place]
        case .list(let values):
            var places: [Int] = []
            for (index, value) in values.enumerated() { places += read(value, "\(path)/\(index)", parent) ?? [] }
            return places
        }
    }
}
