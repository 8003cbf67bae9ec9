import Broker
import Foundation
import Testing

/// A broker that knows its model alone.
private struct ModelOnly: BrokerService {
    let description: ModelDescription

    func model() -> ModelDescription { description }

    func close() {}
}

@Suite(.timeLimit(.minutes(5))) struct RecordCheckTests {
    private static let attributes = """
        "id": {"type": "integer64", "key": "id", "optional": true},
        "name": {"type": "string", "key": "name", "optional": false},
        "hiredAt": {"type": "date", "key": "hired_at", "optional": true},
        "level": {"type": "string", "key": "level", "optional": true, "enum": ["new", "gold"]},
        "latitude": {"type": "double", "key": ["geo", "lat"], "optional": true},
        "notes": {"type": "transformable", "key": "notes", "optional": true}
        """
    private let broker: ModelOnly

    init() throws {
        let relationships = """
            "boss": {"entity": "Worker", "toMany": false, "key": "boss"},
            "reports": {"entity": "Worker", "toMany": true, "key": "reports"},
            "team": {"entity": "Team", "toMany": false, "key": "team_id"},
            "teams": {"entity": "Team", "toMany": true, "key": "teams"}
            """
        let model = """
            {"entities": {
              "Worker": {"identity": ["id"], "attributes": {\(Self.attributes)}, "relationships": {\(relationships)}},
              "Team": {"identity": ["code"], "attributes": {
                "code": {"type": "string", "key": "code", "optional": true},
                "title": {"type": "string", "key": "title", "optional": true}}}}}
            """.replacing(#"["geo", "lat"]"#, with: #"[["geo", "lat"]]"#)
        broker = ModelOnly(description: try ModelDescription(json: Array(model.utf8)))
    }

    private func differences(_ types: any (BrokerRecord & Decodable).Type...) async -> [String] {
        do {
            for type in types { try await broker.check(type) }
            return []
        } catch let error as BrokerError where error.code == .modelMismatch {
            return error.message.split(separator: "\n").map(String.init)
        } catch {
            return ["\(error)"]
        }
    }

    private enum Level: String, Codable { case new, gold }

    private struct Team: Codable {
        var code: String
        var title: String?
    }

    private struct Place: Codable { var lat: Double? }

    private struct Worker: Codable, BrokerRecord {
        static let entity = "Worker"

        var id: Int
        var name: String
        var hired_at: Date?
        var level: Level?
        var geo: Place?
        var notes: [String: Int]?
        var boss: Int?
        var reports: [Link<Int, Worker>]?
        var team_id: Link<String, Team>?
        var teams: [Link<String, Team>]?
    }

    private struct Named: Codable, BrokerRecord {
        static let entity = "Worker"
        static let names = Query.Names.model

        var id: Int
        var name: String
        var hiredAt: Date?
        var latitude: Double?
        var team: String?
        var teams: [Team]
    }

    private struct Reader: Decodable, BrokerRecord {
        static let entity = "Worker"

        var id: Int
        @Nullable var name: String?
        var boss: Int?
        var teams: [String]?
        var notes: RawJSON
    }

    @Test func `types that fit have no differences, nested and recursive ones neither`() async {
        #expect(await differences(Worker.self, Named.self, Reader.self) == [])
    }

    private struct Misspelt: Codable, BrokerRecord {
        static let entity = "Worker"

        struct Team: Codable { var cod: String }

        var id: Int
        var nam: String
        var hiredAt: Date?
        var team_id: Team?
        var teams: [Team]?
    }

    @Test
    func `keys that the model lacks are listed with the near one, at any depth, and required ones that the type lacks`()
        async
    {
        #expect(
            await differences(Misspelt.self) == [
                #"Misspelt.nam: the entity has no key "nam"; did you mean "name"?"#,
                #"Misspelt.hiredAt: the entity has no key "hiredAt"; did you mean "hired_at"?"#,
                #"Misspelt.team_id.cod: the entity has no key "cod"; did you mean "code"?"#,
                #"Misspelt.teams.cod: the entity has no key "cod"; did you mean "code"?"#,
                #"Misspelt: Worker requires the attribute name, and the type has no property with the key "name"."#,
            ])
    }

    private struct Mistyped: Decodable, BrokerRecord {
        static let entity = "Worker"

        enum Level: String, Codable { case new, old }

        var id: UUID
        var name: Date
        var hired_at: Date
        var level: Level?
        var geo: Double?
        var boss: String?
        var team_id: [String]?
        var teams: Int?
    }

    @Test func `properties that do not decode the model's values, or null, are listed`() async throws {
        let found = await differences(Mistyped.self)
        #expect(
            found.map { $0.prefix { $0 != ":" } } == [
                "Mistyped.id", "Mistyped.name", "Mistyped.hired_at", "Mistyped.level", "Mistyped.geo", "Mistyped.boss",
                "Mistyped.team_id", "Mistyped.teams",
            ])
        try #require(found.count == 8)
        #expect(found[1].contains(#"is of the type string, and Date does not decode a value such as "a""#))
        #expect(found[2].contains("may be null"))
        #expect(found[3].contains(#"such as "gold""#))
        #expect(found[7].contains("objects or keys of Team"))
    }

    private struct Unknown: Codable, BrokerRecord {
        static let entity = "Wrker"
    }

    private struct Code: Codable {
        init(from decoder: any Decoder) throws {
            throw DecodingError.dataCorrupted(.init(codingPath: [], debugDescription: "Never."))
        }

        func encode(to encoder: any Encoder) throws {}
    }

    private struct Opaque: Codable, BrokerRecord {
        static let entity = "Worker"

        var id: Int
        var name: Code
    }

    @Test func `an entity that the model lacks, and a property of which no sample is known, are said`() async {
        #expect(
            await differences(Unknown.self) == [#"Unknown: the model has no entity "Wrker"; did you mean "Worker"?"#])
        let found = await differences(Opaque.self)
        #expect(found.count == 1 && found[0].hasPrefix("Opaque.name: the properties from here on were not compared"))
    }
}
