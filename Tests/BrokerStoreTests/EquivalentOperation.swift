/// An operation of ``EquivalentJobs``, and the operations that must have its effect one after the other.
struct EquivalentOperation {
    enum Kind {
        case process, change, rename, delete
        case relate(String)
        case sync(String)
    }

    /// A placeholder for the key of the object that the operation names.
    static let mark = "$KEY"
    /// A placeholder for the identity of that object.
    static let identityMark = "$IDENTITY"

    let kind: Kind
    let entity: String
    /// The identity of the operation's object, as JSON; `NULL` of one without.
    let name: String?
    /// Records; of one object its members, its value, or its key.
    private(set) var parts: [String]

    init(_ kind: Kind, _ entity: String, name: String? = nil, _ parts: [String]) {
        self.kind = kind
        self.entity = entity
        self.name = name
        self.parts = parts
    }

    static func identity(_ entity: String) -> String { entity == "Hive" ? "name" : "no" }

    var json: String {
        let content = parts.joined(separator: ", ")
        switch kind {
        case .process: return #"{"entity": "\#(entity)", "json": [\#(content)]}"#
        case .change, .rename:
            return #"{"entity": "\#(entity)", "object": \#(Self.mark), "json": {\#(content)}}"#
        case .relate(let relationship):
            return
                #"{"op": "relate", "entity": "\#(entity)", "object": \#(Self.mark), "relationship": "\#(relationship)", "json": \#(content)}"#
        case .delete: return #"{"op": "delete", "entity": "\#(entity)", "objects": [\#(content)]}"#
        case .sync(let condition):
            return #"{"op": "sync", "entity": "\#(entity)", "json": [\#(content)], "where": "\#(condition)"}"#
        }
    }

    /// The operation with the key of its object.
    struct Resolved {
        let json: String
        /// Operations that must have its effect one after the other, as long as its object exists.
        let apart: [String]
        var object: Object?
        var isDeletion = false
        /// The key of an object becomes another one.
        var isRenaming = false
        /// The identity of an object becomes another one, so ``apart`` of a later operation may name no object by it.
        var changesIdentity = false
    }

    /// The objects that an operation names.
    struct Object {
        let entity: String
        let key: String

        var keyColumn: String { entity == "Hive" ? "_pk" : "no" }

        func exists(in store: TestStore) throws -> Bool {
            try !store.ownRows("SELECT 1 FROM \(entity) WHERE \(keyColumn) = \(key)").isEmpty
        }
    }

    /// - Returns: nil when there is no such object.
    func resolved(_ store: TestStore) throws -> Resolved? {
        guard let name else {
            guard !parts.contains(where: Self.deletesItself) else { return nil }
            return Resolved(json: json, apart: apart(identity: nil))
        }
        var key = name
        let identity = name == "NULL" ? nil : name
        if entity == "Hive" {
            let rows = try store.ownRows("SELECT _pk FROM Hive WHERE name IS \(name.replacing("\"", with: "'"))")
            guard let row = rows.first else { return nil }
            key = row
        } else if try !Object(entity: entity, key: key).exists(in: store) {
            return nil
        }
        // The contract lets an operation fail whose own tombstone deletes its object.
        let deletesItself = parts.joined().split(separator: "{").contains {
            $0.hasPrefix("\"no\": \(key),") && $0.contains("\"gone\": true")
        }
        guard !deletesItself else { return nil }
        func marked(_ json: String) -> String {
            json.replacing(Self.mark, with: key).replacing(Self.identityMark, with: identity ?? "null")
        }
        var resolved = Resolved(json: marked(json), apart: apart(identity: identity).map(marked))
        resolved.object = Object(entity: entity, key: key)
        if case .delete = kind { resolved.isDeletion = true }
        if case .rename = kind {
            resolved.changesIdentity = true
            resolved.isRenaming = entity != "Hive"
        }
        return resolved
    }

    /// Whether a tombstone inside the record deletes the record's object. The contract lets such a job fail.
    private static func deletesItself(_ record: String) -> Bool {
        let objects = record.split(separator: "{")
        guard let name = objects.first?.split(separator: ",").first else { return false }
        return objects.dropFirst().contains { $0.hasPrefix("\(name),") && $0.contains("\"gone\": true") }
    }

    /// - Parameter identity: of the object that is named; nil when it has none.
    private func apart(identity: String?) -> [String] {
        let member: String
        switch kind {
        // The sets of one operation unite before they replace.
        case .process where !parts.contains { $0.contains("\"idols\"") || $0.contains("\"court\"") }:
            return parts.map { #"{"entity": "\#(entity)", "json": [\#($0)]}"# }
        case .change: member = parts.joined(separator: ", ")
        case .relate(let relationship): member = "\"\(relationship)\": \(parts[0])"
        case .process, .rename, .delete, .sync: return [json]
        }
        guard let identity else { return [json] }
        let members = ["\"\(Self.identity(entity))\": \(identity)", member].filter { !$0.isEmpty }
        return [#"{"entity": "\#(entity)", "json": {\#(members.joined(separator: ", "))}}"#]
    }
}

extension EquivalentOperation {
    /// Parts that a smaller operation may lack.
    var shrinkableCount: Int {
        switch kind {
        case .process, .change: parts.count
        case .rename, .relate, .delete, .sync: 0
        }
    }

    func without(part: Int) -> EquivalentOperation {
        var smaller = self
        smaller.parts.remove(at: part)
        return smaller
    }
}
