import Broker
import BrokerEmbedded
import BrokerJSON
import BrokerModel
import Foundation
import Testing

/// The structs that `broker model swift` writes: `GeneratedModel.swift` is such a file.
@Suite(.timeLimit(.minutes(5))) struct SwiftSourceTests {
    private static let model = #"""
        {"entities": {
          "Worker": {"identity": "id",
            "attributes": {
              "id": "integer64", "name": {"type": "string", "optional": false}, "class": "string",
              "hiredAt": {"type": "date", "key": "hired_at"}, "birthday": {"type": "date", "format": "yyyy/MM/dd"},
              "started": "calendarDate",
              "latitude": {"type": "double", "key": "place.geo.lat"}, "longitude": {"type": "double", "key": "place.geo.lng"},
              "extra": "transformable", "salary": "decimal", "photo": "binary", "token": "uuid", "page": "uri",
              "level": "integer16", "isActive": "boolean"},
            "relationships": {
              "team": {"entity": "Team"}, "rooms": {"entity": "Room", "toMany": true, "assignment": "replace"},
              "notes": {"entity": "Note", "toMany": true}, "shifts": {"entity": "Shift", "toMany": true, "owned": true}}},
          "Team": {"identity": "id", "attributes": {"id": "integer32", "name": {"type": "string", "key": "na\"me"}}},
          "Room": {"identity": ["floor", "number"], "attributes": {"floor": "integer16", "number": "string"}},
          "Note": {"attributes": {"text": "string"}}, "Shift": {"attributes": {"day": "string"}}}}
        """#

    private static var generated: String {
        get throws {
            SwiftSource(
                try ModelReader.read(try ModelDocument(parsing: JSONText(copying: Array(model.utf8)))), isPublic: false
            ).text
        }
    }

    @Test func `the file of this target is what the model makes`() throws {
        let path = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "GeneratedModel.swift")
        #expect(try String(contentsOf: path, encoding: .utf8) == (try Self.generated) + "\n")
    }

    @Test func `values of the structs are stored, and come back as they were`() async throws {
        let employee = Worker(
            id: 1, name: "Ada", class: "a", hiredAt: Date(timeIntervalSince1970: 1.25),
            birthday: try Date("1815-12-10T00:00:00Z", strategy: .iso8601),
            started: "1833-06-05", latitude: 51.5, longitude: nil, extra: RawJSON(#"{"a":[1,null,"x",true,1.5]}"#),
            salary: Decimal(string: "12500.50"), photo: Data([1, 2, 255]),
            token: UUID(uuidString: "8C1D0A3E-5E0B-4C3A-9F5C-0B0B0B0B0B0B"),
            page: URL(string: "https://example.com/a"), level: 3, isActive: true, team: 7,
            rooms: [.init(floor: 1, number: "a"), .init(floor: 2, number: "b")],
            shifts: [Shift(day: "mon"), Shift(day: "tue")])
        try await withTemporaryBroker(model: .json(Self.model)) { broker in
            try await broker.process([Team(id: 7, name: "R&D")], as: Team.entity)
            try await broker.process([employee], as: Worker.entity)
            let found: Worker? = try await broker.fetchObject(
                from: Worker.entity, key: 1, include: ["shifts"])
            var expected = employee
            // To-many relationships come where `include` names them.
            expected.rooms = nil
            #expect(found == expected)
            #expect(
                try await broker.fetch(Room.self, from: "Room").collect().map(\.number) == ["a", "b"])
            #expect(try await broker.fetchObject(Team.self, from: "Team", key: 7)?.name == "R&D")
        }
    }
}
