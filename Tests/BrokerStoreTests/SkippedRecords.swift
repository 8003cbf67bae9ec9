import BrokerJSON
import BrokerModel

@testable import BrokerStore

/// The skipped parts of a job of ``EquivalentJobs``: a record with a fault of its own alone, and an object that cannot be made with
/// all its records and bare keys in the step; but of an object with records, a bare key that cannot be met alone.
struct SkippedRecords {
    private struct Object: Hashable {
        let step: Int
        let topmost: String
        let key: String
    }

    private let paths: Set<String>
    private var objects: Set<Object> = []
    /// By operation.
    private let steps: [Int]

    /// A record or a bare key, or an operation.
    private struct Name {
        var object: Object?
        var isRecord = false
    }

    init(_ operations: [String], _ rejections: [Fault]) throws {
        steps = Self.steps(operations)
        let names = try Self.names(operations, steps)
        var paths: Set<String> = []
        var incomplete: Set<String> = []
        for rejection in rejections {
            var path = Substring(rejection.path ?? "")
            while !path.isEmpty, names[String(path)] == nil {
                path = path.lastIndex(of: "/").map { path[..<$0] } ?? ""
            }
            paths.insert(String(path))
            // `constraintViolation` is an object of another branch, the fault of that record alone.
            if [.missingValue, .objectNotFound].contains(rejection.code) { incomplete.insert(String(path)) }
        }
        self.paths = paths
        let withFaults = paths.subtracting(incomplete)
        let withRecords = names.filter { path, name in
            name.isRecord && !withFaults.contains { path == $0 || path.hasPrefix("\($0)/") }
        }
        let made = Set(withRecords.values.compactMap(\.object))
        for path in incomplete {
            guard let name = names[path], let object = name.object else { continue }
            if name.isRecord || !made.contains(object) { objects.insert(object) }
        }
    }

    /// By path.
    private static func names(_ operations: [String], _ steps: [Int]) throws -> [String: Name] {
        var names: [String: Name] = [:]
        for (number, operation) in operations.enumerated() {
            let document = try JSONDocument(parsing: JSONText(copying: Array(operation.utf8)))
            names["/\(number)"] = Name()
            _ = visit(document.root, number) { value, entity, path in
                names[path] = Name(object: object(value, entity, steps[number]), isRecord: value.kind == .object)
                return true
            }
        }
        return names
    }

    private static func object(_ value: JSONValue, _ entity: String, _ step: Int) -> Object? {
        let key = value.kind == .object ? key(value, entity) : text(value)
        return key.map { Object(step: step, topmost: topmost(entity), key: $0) }
    }

    /// The operations without them; one of which nothing is left is missing.
    func removed(from operations: [String]) throws -> [String] {
        try operations.enumerated().compactMap { number, operation in
            if paths.contains("/\(number)") { return nil }
            let document = try JSONDocument(parsing: JSONText(copying: Array(operation.utf8)))
            return Self.visit(document.root, number) { value, entity, path in
                let object = Self.object(value, entity, steps[number])
                return !paths.contains(path) && !(object.map(objects.contains) ?? false)
            }
        }
    }

    /// Consecutive operations that merge records are one step.
    private static func steps(_ operations: [String]) -> [Int] {
        var step = 0
        var wasProcess = false
        return operations.map { operation in
            let isProcess = !operation.contains("\"op\"") && !operation.contains("\"object\"")
            if !(isProcess && wasProcess) { step += 1 }
            wasProcess = isProcess
            return step
        }
    }

    private static func topmost(_ entity: String) -> String {
        ["Drone", "Scout", "Queen"].contains(entity) ? "Bee" : entity
    }

    private static func key(_ record: JSONValue, _ entity: String) -> String? {
        record[EquivalentOperation.identity(entity)].map(text)
    }

    private static func text(_ value: JSONValue) -> String { String(decoding: value.jsonText, as: UTF8.self) }

    // MARK: - The text

    /// The operation's text without the records and bare keys that `keeps` rejects; nil when that is all of it.
    private static func visit(
        _ operation: JSONValue, _ number: Int, _ keeps: (JSONValue, _ entity: String, _ path: String) -> Bool
    ) -> String? {
        let entity = operation["entity"]!.string!
        guard operation["json"] != nil else { return text(operation) }
        let relationship = operation["relationship"]?.string.map { name in
            EquivalentJobs.relationships[entity]!.first { $0.name == name }!
        }
        var members: [String] = []
        for (key, value) in operation.members {
            guard key.string == "json" else {
                members.append("\(text(key)): \(text(value))")
                continue
            }
            let all = values(value, relationship?.entity ?? entity, "/\(number)/json", keeps)
            guard let all else { return nil }
            members.append("\"json\": \(all)")
        }
        return "{\(members.joined(separator: ", "))}"
    }

    private static func values(
        _ value: JSONValue, _ entity: String, _ path: String, _ keeps: (JSONValue, String, String) -> Bool
    ) -> String? {
        guard value.kind == .array else { return self.value(value, entity, path, keeps) }
        let elements = value.elements.enumerated().compactMap { self.value($1, entity, "\(path)/\($0)", keeps) }
        return "[\(elements.joined(separator: ", "))]"
    }

    private static func value(
        _ value: JSONValue, _ entity: String, _ path: String, _ keeps: (JSONValue, String, String) -> Bool
    ) -> String? {
        if value.isNull { return "null" }
        guard keeps(value, entity, path) else { return nil }
        guard value.kind == .object else { return text(value) }
        var members: [String] = []
        for (key, member) in value.members {
            let name = key.string!
            guard let relationship = EquivalentJobs.relationships[entity]!.first(where: { $0.name == name }) else {
                members.append("\(text(key)): \(text(member))")
                continue
            }
            let rest = values(member, relationship.entity, "\(path)/\(name)", keeps)
            if let rest { members.append("\(text(key)): \(rest)") }
        }
        return "{\(members.joined(separator: ", "))}"
    }
}
