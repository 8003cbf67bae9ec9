import BrokerJSON
import BrokerWire
import Foundation
import Testing

@testable import Broker

/// The typed answers have every member of the messages in `protocol/examples`, and these have every member of the schemas.
@Suite(.timeLimit(.minutes(5))) struct TypedAnswerTests {
    private static let folder = URL(filePath: #filePath)
        .deletingLastPathComponent().appending(path: "../../protocol").standardizedFileURL

    private static func bytes(_ name: String) throws -> [UInt8] {
        Array(try Data(contentsOf: folder.appending(path: name)))
    }

    private static func members(_ name: String) throws -> [String: Any] {
        try #require(try JSONSerialization.jsonObject(with: Data(try bytes(name))) as? [String: Any])
    }

    /// Paths of the members of a message that a typed value lacks, or has otherwise.
    private func missing(_ typed: Any?, of message: Any, at path: String = "") -> [String] {
        switch (message, typed) {
        case (let message as [String: Any], let typed as [String: Any]):
            return message.flatMap { missing(typed[$0.key], of: $0.value, at: "\(path)/\($0.key)") }.sorted()
        case (let message as [Any], let typed as [Any]):
            guard message.count == typed.count else { return [path] }
            return message.indices.flatMap { missing(typed[$0], of: message[$0], at: "\(path)/\($0)") }
        default:
            return (message as? NSObject)?.isEqual(typed) == true ? [] : [path]
        }
    }

    private func encoded(_ value: some Encodable) throws -> Any {
        try JSONSerialization.jsonObject(with: try JSONEncoder().encode(value), options: .fragmentsAllowed)
    }

    @Test func `statistics have every member of the message`() throws {
        var message = try Self.members("examples/stats.json")
        message["type"] = nil
        let statistics = try Statistics(json: try Self.bytes("examples/stats.json"))
        #expect(missing(try encoded(statistics), of: message) == [])
        #expect(statistics.store.state == .waiting && statistics.journal?.applied == 1_195)
        #expect(statistics.json.bytes == (try Self.bytes("examples/stats.json")))
    }

    @Test func `a model's description has every member of the message`() throws {
        let message = try #require(try Self.members("examples/model.json")["model"])
        let json = try JSONSerialization.data(withJSONObject: message)
        let model = try ModelDescription(json: Array(json))
        #expect(missing(try encoded(model), of: message) == [])
        #expect(model.mappings["any"]?.select?.otherwise?.wrappedValue == nil)
        #expect(model.mappings["any"]?.select?.otherwise != nil)
        #expect(model.mappings["byNumber"]?.relationships?["staff"]?.relationship == "members")
    }

    @Test func `what a newer server adds is ignored`() throws {
        var message = try Self.members("examples/stats.json")
        message["queues"] = ["opening": 1, "staging": 2, "bytes": 3, "sleeping": ["a"]] as [String: Any]
        message["sharding"] = [1, 2]
        let statistics = try Statistics(json: Array(try JSONSerialization.data(withJSONObject: message)))
        #expect(statistics.queues.bytes == 3)
        let model = try ModelDescription(
            json: Array(
                #"{"entities":{"E":{"table":"E","engine":"x","attributes":{"a":{"type":"geo","srid":1}}}},"v":2}"#.utf8)
        )
        #expect(model.entities["E"]?.attributes["a"]?.type == "geo")
    }

    @Test func `the welcome's limits are all there`() throws {
        let envelope = try ServerEnvelope.decode(parsing: JSONText(copying: try Self.bytes("examples/welcome.json")))
        guard case .welcome(let server) = envelope.message else { throw CocoaError(.coderInvalidValue) }
        let limits = try #require(try Self.members("examples/welcome.json")["limits"] as? [String: Int])
        let typed = [
            "maximumFrameBytes": server.limits.maximumFrameBytes,
            "maximumContentBytes": server.limits.maximumContentBytes, "maximumDepth": server.limits.maximumDepth,
            "maximumIdBytes": server.limits.maximumIDBytes, "maximumTagBytes": server.limits.maximumTagBytes,
            "jobMemory": server.limits.jobMemory, "jobsInFlight": server.limits.jobsInFlight,
            "outcomesKept": server.limits.outcomesKept,
            "outcomesKeptSeconds": server.limits.outcomesKeptFor.map { Int($0.components.seconds) },
            "outcomesForgottenThrough": server.limits.outcomesForgottenThrough.map { Int($0) },
        ]
        #expect(typed.compactMapValues(\.self) == limits)
        #expect(server.hasJournal == false && server.entities == ["Department", "Employee"])
    }

    // MARK: - Completeness of the examples

    /// The names of all members in a value, at any depth.
    private func names(_ value: Any) -> Set<String> {
        switch value {
        case let object as [String: Any]: object.reduce(into: Set(object.keys)) { $0.formUnion(names($1.value)) }
        case let array as [Any]: array.reduce(into: []) { $0.formUnion(names($1)) }
        default: []
        }
    }

    /// The names of all properties that a schema defines, at any depth, but for those of references.
    private func properties(_ schema: Any) -> Set<String> {
        switch schema {
        case let object as [String: Any]:
            object.reduce(into: Set((object["properties"] as? [String: Any]).map { Array($0.keys) } ?? [])) {
                $0.formUnion(properties($1.value))
            }
        case let array as [Any]: array.reduce(into: []) { $0.formUnion(properties($1)) }
        default: []
        }
    }

    @Test func `the examples have every property of their schemas`() throws {
        let answers = try #require(try Self.members("server-messages.schema.json")["$defs"] as? [String: Any])
        let stats = properties(try #require(answers["stats"]))
        #expect(stats.count > 15)
        #expect(stats.subtracting(names(try Self.members("examples/stats.json"))) == [])
        // A model in force does not have these; they are written out as `formats`, `indexes` and `unique`.
        let input: Set = ["$schema", "format", "indexed"]
        let model = properties(try Self.members("model.schema.json")).subtracting(input)
        #expect(model.count > 40)
        #expect(model.subtracting(names(try Self.members("examples/model.json"))) == [])
    }
}
