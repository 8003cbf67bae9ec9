import Broker
import BrokerEmbedded
import BrokerJSON
import BrokerModel
import Foundation
import Testing

/// The structs that `broker model swift` writes: `GeneratedModel.swift` is such a file.
@Suite(.timeLimit(.minutes(5))) struct SwiftSourceTests {
    private static let json = #"""
        {"entities": {
          "Worker": {"identity": "id", "extra": true, "description": "A person who works here.\nNot a guest.",
            "attributes": {
              "id": "integer64", "name": {"type": "string", "optional": false, "description": "As on the badge."},
              "class": "string", "hiredAt": {"type": "date", "key": "hired_at"},
              "birthday": {"type": "date", "format": "yyyy/MM/dd"},
              "started": {"type": "calendarDate", "format": "dd.MM.yyyy"},
              "latitude": {"type": "double", "key": "place.geo.lat"}, "longitude": {"type": "double", "key": "place.geo.lng"},
              "details": "transformable", "salary": "decimal", "photo": "binary", "token": "uuid", "page": "uri",
              "level": {"type": "integer16", "enum": [1, "2", -1]}, "size": "integer32", "ratio": "float", "isActive": "boolean",
              "state": {"type": "string", "enum": ["open", "in-progress", "none", "NONE", "HTTPError", "default", "2nd", "", "*"]},
              "float": {"type": "string", "enum": ["a"]}, "short": {"type": "string", "enum": ["A"], "transform": "uppercase"}},
            "relationships": {
              "team": {"entity": "Team", "inverse": "workers"}, "rooms": {"entity": "Room", "toMany": true, "assignment": "replace"},
              "desk": {"entity": "Room", "description": "Where the worker sits."}, "badge": {"entity": "Badge"},
              "notes": {"entity": "Note", "toMany": true}, "shifts": {"entity": "Shift", "toMany": true, "owned": true}}},
          "Manager": {"parent": "Worker", "attributes": {"bonus": "decimal"}},
          "Team": {"identity": "code",
            "attributes": {"code": {"type": "string", "enum": ["dev", "ops"]}, "name": {"type": "string", "key": "na\"me"}},
            "relationships": {
              "workers": {"entity": "Worker", "toMany": true, "inverse": "team"}, "head": {"entity": "Manager"}}},
          "Room": {"identity": ["floor", "number"],
            "attributes": {"floor": "integer16", "number": {"type": "string", "key": "room_number"}}},
          "Badge": {"identity": "code", "identityOptional": true, "attributes": {"code": "string"}},
          "Note": {"attributes": {"text": "string"}, "relationships": {"about": {"entity": "Note"}}},
          "Shift": {"attributes": {"day": "string"}},
          "string": {"identity": "id",
            "attributes": {
              "id": "integer64", "init": "string", "self": "string", "record": {"type": "string", "key": "a.b"}, "a-b": "string",
              "a_b": "string", "entity": "string", "Key": "string", "decoder": "string", "2": "string"}}}}
        """#

    private static var model: Model {
        get throws { try ModelReader.read(try ModelDocument(parsing: JSONText(copying: Array(json.utf8)))) }
    }

    private static func source(entities: [String] = [], includes: [String] = [], isPublic: Bool = false) throws
        -> String
    {
        try SwiftSource(model, entities: entities, includes: includes, isPublic: isPublic).text
    }

    /// The declared structs, in their order.
    private static func structs(_ source: String) -> [String] {
        source.matches(of: /(?m)^struct (\w+):/).map { String($0.1) }
    }

    @Test func `the compiled file of this target is what the model makes`() throws {
        let path = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "GeneratedModel.swift")
        let source = try Self.source(includes: ["Team.workers", "Team.head"], isPublic: true)
        #expect(try String(contentsOf: path, encoding: .utf8) == source + "\n")
    }

    @Test func `without public nothing is, and a relationship is keys unless its path is included`() throws {
        let source = try Self.source()
        #expect(!source.contains("public") && source.contains("import Broker\nimport Foundation\n"))
        #expect(source.contains("var workers: [Int64]?\n") && source.contains("var head: Int64?\n"))
        let included = try Self.source(includes: ["Team.workers.rooms"])
        #expect(included.contains("var workers: [Worker]?\n") && included.contains("var head: Int64?\n"))
        // Those of a subentity are included, too.
        #expect(included.matches(of: /var rooms: \[Room\]\?/).count == 2)
        #expect(included.matches(of: /var team: Team\.Code\?/).count == 2)
    }

    @Test func `selected entities come with those that their structs need`() throws {
        #expect(Self.structs(try Self.source(entities: ["Badge"])) == ["Badge"])
        #expect(Self.structs(try Self.source(entities: ["Team"])) == ["Team"])
        #expect(Self.structs(try Self.source(entities: ["Manager"])) == ["Manager", "Team", "Room", "Shift"])
        #expect(
            Self.structs(try Self.source(entities: ["Team"], includes: ["Team.head"])) == [
                "Manager", "Team", "Room", "Shift",
            ])
        #expect(!(try Self.source(entities: ["Badge"])).contains("Foundation"))
    }

    @Test(arguments: [
        (["Wrker"], [], #"The model has no entity "Wrker"; did you mean "Worker"?"#),
        ([], ["Team.worker"], #"Team has no relationship "worker"; did you mean "workers"?"#),
        ([], ["Team"], #""Team" is no path of relationships: it begins with an entity, as in Order.lines."#),
        (
            [], ["Team.head", "Manager.team"],
            "A Manager would contain a Manager, over to-one relationships that are included. Leave one of them out."
        ),
    ]) func `a name that the model lacks, or a struct that contains itself, is refused`(
        entities: [String], includes: [String], message: String
    ) throws {
        let fault = #expect(throws: SwiftSource.Fault.self) { try Self.source(entities: entities, includes: includes) }
        #expect(fault?.message == message)
    }

    // MARK: - The compiled structs

    private static let worker = Worker(
        id: 1, name: "Ada", class: "a", hiredAt: Date(timeIntervalSince1970: 1.25),
        birthday: Date(timeIntervalSince1970: -86_400), started: "1833-06-05", latitude: 51.5, longitude: nil,
        details: RawJSON(#"{"a":[1,null,"x",true,1.5]}"#), salary: Decimal(string: "12500.50"),
        photo: Data([1, 2, 255]),
        token: UUID(uuidString: "8C1D0A3E-5E0B-4C3A-9F5C-0B0B0B0B0B0B"), page: URL(string: "https://example.com/a"),
        level: .minus1, size: 7, ratio: 0.1, isActive: true, state: .inProgress, float: .a, short: "A", team: .dev,
        rooms: [Room.Key(floor: 1, number: "a"), Room.Key(floor: 2, number: "b")],
        desk: Room.Key(floor: 2, number: "b"),
        badge: "b-1", shifts: [Shift(day: "mon"), Shift(day: "tue")])

    @Test func `values of the structs are stored, and come back as they were`() async throws {
        try await withTemporaryBroker(model: .json(Self.json)) { broker in
            try await broker.process([Badge(code: "b-1")], as: Badge.entity)
            try await broker.process([Self.worker], as: Worker.entity)
            let found: Worker? = try await broker.fetchObject(
                from: Worker.entity, key: 1, include: ["shifts", "rooms"])
            var expected = Self.worker
            // The fetch includes their objects, of which the key is a part.
            #expect(found?.rooms == expected.rooms)
            #expect(found == expected)
            let unchanged = try await broker.process([found], as: Worker.entity).changes
            #expect(unchanged["Worker"] == .init(unchanged: 1))
            expected.rooms = nil
            expected.shifts = nil
            #expect(try await broker.objects(Worker.self, from: "Worker").collect() == [expected])
            #expect(
                try await broker.objects(Room.self, from: "Room").collect().map(\.number) == ["a", "b"])
        }
    }

    @Test func `included relationships are objects, inherited attributes too, and names that Swift has otherwise fit`()
        async throws
    {
        let manager = Manager(id: 2, name: "Grace", level: ._2, state: .none_, bonus: 1.5, team: .ops)
        let names = StringRecord(
            id: 1, init_: "a", self_: "b", record: "c", a_b: "d", a_b_: "e", entity: "f", Key_: "g", decoder: "h",
            _2: "i")
        try await withTemporaryBroker(model: .json(Self.json)) { broker in
            let team = Team(code: .ops, name: "Operations", workers: [Worker(id: 3, name: "Alan")], head: manager)
            try await broker.process([team], as: Team.entity)
            let found = try await broker.fetchObject(Team.self, from: "Team", key: "ops", include: ["workers", "head"])
            #expect(found?.head == manager && found?.name == "Operations")
            #expect(found?.workers?.map(\.name) == ["Grace", "Alan"] && found?.workers?.last?.team == .ops)
            try await broker.process([names], as: StringRecord.entity)
            #expect(try await broker.objects(StringRecord.self, from: "string").collect() == [names])
        }
    }

    @Test func `extra values come with the object, and are sent with it`() async throws {
        try await withTemporaryBroker(model: .json(Self.json)) { broker in
            try await broker.process(json: #"{"id": 1, "name": "Ada", "shoe": {"size": 38}}"#, as: "Worker")
            var worker = try #require(try await broker.objects(Worker.self, from: "Worker").collect().first)
            #expect(worker._extra == RawJSON(#"{"shoe":{"size":38}}"#))
            #expect(try await broker.process([worker], as: "Worker").changes["Worker"] == .init(unchanged: 1))
            worker._extra = RawJSON(#"{"hat":1}"#)
            #expect(try await broker.process([worker], as: "Worker").changes["Worker"] == .init(updated: 1))
            let changed = try await broker.objects(Worker.self, from: "Worker").collect().first
            #expect(changed?._extra == RawJSON(#"{"hat":1,"shoe":{"size":38}}"#))
        }
    }
}
