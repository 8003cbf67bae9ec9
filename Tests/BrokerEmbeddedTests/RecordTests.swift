import Broker
import Foundation
import Testing

@testable import BrokerEmbedded

private struct Clerk: Codable, Equatable, BrokerRecord {
    static let entity = "Worker"

    var worker_id: Int
    var name: String?
    var geo: Place?
    var team: Int?

    struct Place: Codable, Equatable { var lat: Double? }
}

/// The same entity by the model's names.
private struct NamedClerk: Codable, Equatable, BrokerRecord {
    static let entity = "Worker"
    static let names = Query.Names.model

    var id: Int
    var name: String?
    var hiredAt: Date?
    var latitude: Double?
    var group: Group?

    struct Group: Codable, Equatable {
        var number: Int
        var title: String?
    }
}

/// Records that know their entity, with a store.
@Suite(.timeLimit(.minutes(5))) struct RecordTests {
    private static let model: EmbeddedBroker.ModelSource = .json(
        #"""
        {"entities": {
          "Worker": {"identity": "id", "extra": true, "root": "row", "attributes": {
            "id": {"type": "integer64", "key": "worker_id"}, "name": "string",
            "hiredAt": {"type": "date", "key": "hired_at", "format": "dd.MM.yyyy"},
            "latitude": {"type": "double", "key": "geo.lat"}},
            "relationships": {"group": {"entity": "Team", "key": "team", "mapping": "team"}}},
          "Team": {"identity": "number", "attributes": {
            "number": {"type": "integer64", "key": "no"}, "title": {"type": "string", "key": "t"}}}},
         "mappings": {"team": {"entity": "Team", "attributes": {"no": "number", "label": "title"}}}}
        """#)

    private let day = Date(timeIntervalSince1970: 1_324_512_000)

    @Test func `types are processed, fetched, changed and deleted without their entity`() async throws {
        try await withTemporaryBroker(model: Self.model) { broker in
            let workers = (1...9).map { Clerk(worker_id: $0, name: "W\($0)") }
            #expect(try await broker.process(workers, id: "a").changes(of: Clerk.self).inserted == 9)
            try await broker.process(Clerk(worker_id: 10, geo: .init(lat: 1.5)))
            let page = broker.objects(Clerk.self, where: "name BEGINSWITH \("W")", sort: "-id", offset: 2, limit: 3)
            #expect(try await page.collect().map(\.worker_id) == [7, 6, 5])
            let one = try await broker.fetchObject(Clerk.self, key: 10)
            #expect(one?.geo?.lat == 1.5)
            try await broker.update(Clerk.self, key: 10, with: ["name": "Ten"])
            try await broker.set("group", of: Clerk.self, key: 10, to: 7)
            #expect(try await broker.fetchFirst(Clerk.self, where: "name == \("Ten")")?.team == 7)
            try await broker.set("group", of: Clerk.self, key: 10, to: nil)
            #expect(try await broker.fetchDictionary(Clerk.self, where: "id > \(9)")["10"]?.team == nil)
            try await broker.delete(Clerk.self, keys: [1])
            try await broker.delete(Clerk.self, where: "id == \(2)")
            let synced = try await broker.sync([Clerk(worker_id: 3)], where: !"id > \(5)")
            #expect(synced.changes(of: Clerk.self).deleted == 2)
            #expect(try await broker.fetchCount(of: Clerk.self) == 6)
        }
    }

    @Test func `records by the model's names give the objects that payloads give, and come back as they were sent`()
        async throws
    {
        try await withTemporaryBroker(model: Self.model) { broker in
            let worker = NamedClerk(
                id: 1, name: "Ada", hiredAt: day, latitude: 1.5, group: .init(number: 7, title: "R&D"))
            let done = try await broker.process(worker, reply: .objects)
            #expect(try done.objects(as: [String: RawJSON].self)[0]?["latitude"] == RawJSON("1.5"))
            let payload = #"""
                {"row": {"worker_id": 1, "name": "Ada", "hired_at": "22.12.2011", "geo": {"lat": 1.5},
                 "team": {"no": 7, "label": "R&D"}}}
                """#
            let again = try await broker.process(json: payload, as: "Worker")
            #expect(again.changes["Worker"] == .init(unchanged: 1) && again.changes["Team"] == .init(unchanged: 1))
            #expect(try await broker.objects(NamedClerk.self, include: ["group"]).collect() == [worker])
            try await broker.update(NamedClerk.self, key: 1, with: ["latitude": 2.5])
            try await broker.set("group", of: NamedClerk.self, key: 1, to: NamedClerk.Group(number: 8, title: "B"))
            let changed = try await broker.fetchFirst(NamedClerk.self, include: ["group"])
            #expect(changed?.latitude == 2.5 && changed?.group == .init(number: 8, title: "B"))
            let raw = try await broker.process(
                json: #"[{"id": 2, "group": 8}]"#, as: "Worker", names: .model)
            #expect(raw.changes == ["Worker": .init(inserted: 1), "Team": .init(unchanged: 1)])
        }
    }

    @Test func `with the model's names a payload's keys are unknown, and faults have the words that were sent`()
        async throws
    {
        try await withTemporaryBroker(model: Self.model) { broker in
            let unknown = await #expect(throws: BrokerError.self) {
                try await broker.process(["id": 1, "worker_id": 1], as: "Worker", names: .model)
            }
            #expect(unknown?.code == .unknownKey && unknown?.message.contains("worker_id") == true)
            let missing = await #expect(throws: BrokerError.self) {
                try await broker.process(json: #"{"worker_id": 1}"#, as: "Worker", names: .model)
            }
            #expect(missing?.code == .missingIdentity && missing?.message.contains(#"key "id""#) == true)
            let wrong = await #expect(throws: BrokerError.self) {
                try await broker.process(json: #"{"id": "x"}"#, as: "Worker", names: .model)
            }
            #expect(wrong?.fault?.path == "/json/id" && wrong?.fault?.attribute == "id")
            let payload = await #expect(throws: BrokerError.self) {
                try await broker.process(Job(.processPayload(json: "{}", by: .mapping("team")), names: .model))
            }
            #expect(payload?.code == .unsupportedMessage && payload?.fault?.path == "/names")
        }
    }

    @Test func `a value for _extra has one place, by whichever names it was sent`() async throws {
        try await withTemporaryBroker(model: Self.model) { broker in
            try await broker.process(json: #"{"id": 1, "latitude": "north"}"#, as: "Worker", names: .model)
            let extra = { try await broker.fetch(Query("Worker", select: ["_extra"])).objects.description }
            #expect(try await extra() == #"[{"_extra":{"geo":{"lat":"north"}}}]"#)
            try await broker.process(json: #"{"worker_id": 1, "geo": {"lat": 2}}"#, as: "Worker")
            #expect(try await extra() == #"[{"_extra":null}]"#)
        }
    }

    @Test func `a job that is sent again with other names is another job`() async throws {
        try await withTemporaryBroker(model: Self.model) { broker in
            let job = Job(.process(json: #"{"name": "x", "id": 1, "worker_id": 1}"#, as: "Worker"), id: "a")
            try await broker.process(job)
            var other = job
            other.names = .model
            let error = await #expect(throws: BrokerError.self) { try await broker.process(other) }
            #expect(error?.code == .idConflict)
        }
    }

    @Test func `a type is compared with the model in force`() async throws {
        struct Wrong: Codable, BrokerRecord {
            static let entity = "Worker"

            var worker_id: Int
            var nme: String?
        }
        try await withTemporaryBroker(model: Self.model) { broker in
            try await broker.check(Clerk.self, NamedClerk.self)
            let error = await #expect(throws: BrokerError.self) { try await broker.check(Clerk.self, Wrong.self) }
            #expect(
                error?.code == .modelMismatch
                    && error?.message == #"Wrong.nme: the entity has no key "nme"; did you mean "name"?"#)
        }
    }
}
