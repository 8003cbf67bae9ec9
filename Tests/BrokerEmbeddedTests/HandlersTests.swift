import Broker
import BrokerJSON
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import BrokerEmbedded

/// Code that has a say while records become objects.
@Suite(.timeLimit(.minutes(5))) struct HandlersTests {
    private static let model = RawJSON(
        """
        {"entities": {
           "Person": {"identity": "id", "attributes": {"id": "integer64", "name": "string", "bornAt": "date"},
              "relationships": {"boss": {"entity": "Person"}, "tags": {"entity": "Tag", "toMany": true, "assignment": "replace"}}},
           "Manager": {"parent": "Person", "attributes": {"grade": {"type": "integer16", "default": 1}}},
           "Tag": {"identity": "word", "attributes": {"word": "string"}, "unique": [["word"]]}},
         "mappings": {"any": {"select": {"key": "type", "cases": {"m": "manager"}, "otherwise": "person"}},
           "person": {"entity": "Person"}, "manager": {"entity": "Manager"}},
         "routes": [{"keyPath": "people", "mapping": "any"}]}
        """)

    private struct Refusal: Error, CustomStringConvertible {
        let description: String
    }

    private let store = TestStore()

    private func open(_ configure: (inout EmbeddedBroker.Handlers) -> Void) async throws -> EmbeddedBroker {
        var handlers = EmbeddedBroker.Handlers()
        configure(&handlers)
        var options = EmbeddedBroker.Configuration()
        options.store.synchronous = .off
        return try await EmbeddedBroker.open(
            store: .file(store.path), model: .json(Self.model), handlers: handlers, configuration: options)
    }

    @Test func `a chooser says what a record is, or leaves it to the model`() async throws {
        let broker = try await open {
            $0.addChooser(forMapping: "any") { record in
                let text = record.description
                if text.contains("secret") { return .decline }
                return text.contains("boss of") ? .mapping("manager") : .asModelled
            }
        }
        let outcome = try await broker.run(
            .processPayload(
                json:
                    #"{"people": [{"id": 1, "name": "boss of x"}, {"id": 2, "type": "m"}, {"id": 3}, {"id": 4, "name": "secret"}]}"#
            ))
        #expect(outcome.changes["Manager"]?.inserted == 2)
        #expect(try store.rows("SELECT id, _entity FROM Person ORDER BY id") == ["1|Manager", "2|Manager", "3|Person"])
        await broker.close()
    }

    @Test func `a chooser that sends a record around a circle is left at last`() async throws {
        let broker = try await open {
            $0.addChooser(forMapping: "person") { _ in .mapping("manager") }
            $0.addChooser(forMapping: "manager") { _ in .mapping("person") }
        }
        let outcome = try await broker.run(.processPayload(json: #"{"id": 1}"#, by: .mapping("person")))
        #expect(outcome.changes.values.reduce(0) { $0 + $1.inserted } == 1)
        await broker.close()
    }

    @Test func `a rewriter changes a record, nested ones too, before it is mapped`() async throws {
        let broker = try await open {
            $0.addRewriter(for: "Person") { record in
                var text = record.description
                if text.contains("\"drop\"") { return nil }
                text = text.replacingOccurrences(of: "\"old_name\"", with: "\"name\"")
                return .init(text)
            }
        }
        let outcome = try await broker.run(
            .process(
                json:
                    #"[{"id": 1, "old_name": "a", "boss": {"id": 2, "old_name": "b", "tags": ["x"]}}, {"id": 3, "drop": 1}, {"id": 4, "boss": {"id": 5, "drop": 1}}]"#,
                as: "Person"), reply: .objects)
        #expect(try store.rows("SELECT id, name, boss FROM Person ORDER BY id") == ["1|a|2", "2|b|NULL"].map { $0 })
        #expect(outcome.warnings == [])
        await broker.close()
    }

    @Test func `later assertions override rewritten ones, and the other way round`() async throws {
        let broker = try await open {
            // Much longer than before, so that its own offsets would follow those of the next records.
            $0.addRewriter(for: "Manager") {
                .init($0.description.dropLast() + #", "name": "\#(String(repeating: "n", count: 500))"}"#)
            }
        }
        _ = try await broker.run(
            .process(json: #"[{"id": 1, "boss": {"id": 9}}]"#, as: "Manager"),
            .process(json: #"[{"id": 1, "boss": {"id": 8}, "name": "short"}]"#, as: "Person"))
        #expect(try store.rows("SELECT name, boss FROM Person WHERE id = 1") == ["short|8"])
        await broker.close()
    }

    @Test func `a validator gets converted values by attribute, and its error is reported at the record`() async throws
    {
        let broker = try await open {
            $0.addValidator(for: "Person") { object in
                if object.description.contains("1970-01-01T00:00:00.000Z") {
                    throw Refusal(description: "The age is impossible.")
                }
            }
        }
        let records =
            #"[{"id": 1, "bornAt": 0}, {"id": 2, "bornAt": 86400, "boss": {"id": 3, "bornAt": "1970-01-01"}}]"#
        let error = await #expect(throws: BrokerError.self) {
            _ = try await broker.run(.process(json: records, as: "Manager"))
        }
        #expect(error?.code == .validationFailed)
        #expect(error?.fault?.message == "The age is impossible.")
        #expect(error?.fault?.path == "/json/0")
        let outcome = try await broker.run(.process(json: records, as: "Manager"), onInvalid: .skip)
        #expect(outcome.rejections.map(\.path) == ["/json/0", "/json/1/boss"])
        #expect(try store.rows("SELECT id, boss FROM Person") == ["2|NULL"])
        await broker.close()
    }

    @Test func `a conversion runs before the model's own, also for bare keys`() async throws {
        let broker = try await open {
            $0.addConverter(for: "word", of: "Tag") { word in
                let text = try word.decode(String.self)
                if text == "bad" { throw Refusal(description: "No such word.") }
                return try .init(value: text.uppercased())
            }
        }
        _ = try await broker.run(.process(json: #"[{"id": 1, "tags": ["a", {"word": "b"}]}]"#, as: "Person"))
        #expect(try store.rows("SELECT word FROM Tag ORDER BY 1") == ["A", "B"])
        let error = await #expect(throws: BrokerError.self) {
            _ = try await broker.run(.process(json: #"[{"word": "bad"}]"#, as: "Tag"))
        }
        #expect(error?.fault?.path == "/json/0/word")
        #expect(error?.fault?.message == "No such word.")
        await broker.close()
    }

    @Test func `a handler's result must be JSON of the right kind`() async throws {
        let broker = try await open {
            $0.addRewriter(for: "Person") { $0.description.contains("7") ? .init("[1]") : .init("{") }
        }
        for (id, message) in [("7", "an object is wanted"), ("8", "made no JSON")] {
            let error = await #expect(throws: BrokerError.self) {
                _ = try await broker.run(.process(json: #"{"id": \#(id)}"#, as: "Person"))
            }
            #expect(error?.code == .invalidValue)
            #expect(error?.fault?.message.contains(message) == true)
        }
        await broker.close()
    }

    @Test func `handlers for what the model does not have are refused at the opening`() async throws {
        let error = await #expect(throws: BrokerError.self) {
            try await open {
                $0.addRewriter(for: "Persn") { $0 }
                $0.addConverter(for: "nam", of: "Person") { $0 }
                $0.addChooser(forMapping: "some") { _ in .decline }
            }
        }
        #expect(error?.code == .invalidModel)
        #expect(error?.message.split(separator: "\n").count == 3)
    }
}

/// Values that are stored and come back as they were.
@Suite(.timeLimit(.minutes(5))) struct TypedValueTests {
    private struct Event: Codable, Equatable {
        var id: Int
        var iso: Date?
        var local: Date?
        var seconds: Date?
        var day: Date?
        var zoned: Date?
        var short: Date?
    }

    private static let dates: EmbeddedBroker.ModelSource = .json(
        """
        {"entities": {"Event": {"identity": "id", "attributes": {
          "id": "integer64", "iso": "date", "local": {"type": "date", "format": "yyyy/MM/dd HH:mm:ss Z"},
          "seconds": {"type": "date", "format": "UnixTime", "storage": "unix"},
          "day": {"type": "date", "formats": ["dd.MM.yyyy", "yyyyMMdd"]},
          "zoned": {"type": "date", "format": "EEEE, d MMMM yyyy h:mm a", "timeZone": "America/New_York"},
          "short": {"type": "date", "format": "yy-MM-dd", "storage": "coreData"}}}}}
        """)

    @Test func `a date comes back from every format, and in the format where that is wanted`() async throws {
        let day = try Date("2011-12-22T00:00:00Z", strategy: .iso8601)
        let minute = day + 11 * 3_600 + 60
        let event = Event(
            id: 1, iso: minute + 1.25, local: minute + 7, seconds: minute + 7, day: day, zoned: minute, short: day)
        // A part of a day, which the format cannot express.
        let fine = Event(id: 2, day: minute, zoned: minute + 0.5, short: Date(timeIntervalSince1970: -1.5))
        try await withTemporaryBroker(model: Self.dates) { broker in
            let done = try await broker.process([event, fine], as: "Event", reply: .objects)
            #expect(try done.objects(as: Event.self) == [event, fine])
            #expect(try await broker.objects(Event.self, from: "Event").collect() == [event, fine])
            #expect(try await broker.fetchObject(Event.self, from: "Event", key: 1, names: .model) == event)
            #expect(try await broker.fetchFirst(Event.self, from: "Event", where: "zoned == \(minute)") == event)
            #expect(try await broker.fetchDictionary(Event.self, from: "Event")["2"] == fine)
            var query = Query("Event")
            query.dates = .model
            let text = try await broker.fetch(query).objects.description
            for format in [
                #""local":"2011/12/22 11:01:07 +0000""#, #""seconds":1324551667"#, #""day":"22.12.2011""#,
                #""zoned":"Thursday, 22 December 2011 6:01 AM""#, #""short":"11-12-22""#,
            ] { #expect(text.contains(format), "\(format) in \(text)") }
            // Both forms are the same values.
            let again = try await broker.process(json: text, as: "Event")
            #expect(again.changes["Event"]?.unchanged == 2)
            query.dates = .iso8601
            let iso = try await broker.process(json: try await broker.fetch(query).objects, as: "Event")
            #expect(iso.changes["Event"]?.unchanged == 2)
            var job = Job(try .process(event, as: "Event"), reply: .objects)
            job.dates = .model
            #expect(try await broker.process(job).objects?.description.contains(#""day":"22.12.2011""#) == true)
        }
    }

    private struct Visit: Codable, Equatable {
        var at: Date
        var iso: Date?
        var core: Date?
        var unix: Date?
    }

    private static let visits: EmbeddedBroker.ModelSource = .json(
        """
        {"entities": {"Visit": {"identity": "at", "attributes": {
          "at": "date", "iso": "date", "core": {"type": "date", "storage": "coreData"},
          "unix": {"type": "date", "storage": "unix", "format": "UnixTime"}}}}}
        """)

    @Test func `dates that were fetched are stored unchanged, and find their objects as keys and in predicates`()
        async throws
    {
        var generator = SeededGenerator()
        let visits = (0..<1_000).map { number in
            // Fresh dates have more digits than are stored.
            let date = Date(timeIntervalSince1970: Double(number) * 86_400 + .random(in: 0..<86_400, using: &generator))
            let milliseconds = Date(timeIntervalSince1970: (date.timeIntervalSince1970 * 1_000).rounded() / 1_000)
            return Visit(at: date, iso: date, core: milliseconds, unix: date)
        }
        try await withTemporaryBroker(model: Self.visits) { broker in
            try await broker.process(visits, as: "Visit")
            for names in [Query.Names.payload, .model] {
                let stored = try await broker.objects(Visit.self, from: "Visit", names: names).collect()
                #expect(stored.count == visits.count)
                let again = try await broker.process(stored, as: "Visit")
                #expect(again.changes["Visit"]?.unchanged == visits.count)
                for visit in stored.prefix(20) {
                    #expect(try await broker.fetchObject(Visit.self, from: "Visit", key: visit.at) == visit)
                    let found = try await broker.fetchFirst(
                        Visit.self, from: "Visit",
                        where: "iso == \(visit.iso) AND core IN \([visit.core]) AND at == \(visit.at)")
                    #expect(found == visit)
                }
            }
        }
    }

    private struct Guest: Codable, Equatable {
        var id: Int
        var firstName: String
    }

    @Test func `a value whose keys the model lacks is an error that names the key, the entity and the remedy`()
        async throws
    {
        let model: EmbeddedBroker.ModelSource = .json(
            """
            {"keyStyle": "snakeCase",
             "entities": {"Guest": {"identity": "id", "attributes": {"id": "integer64", "firstName": "string"}}}}
            """)
        try await withTemporaryBroker(model: model) { broker in
            let guest = Guest(id: 1, firstName: "Ada")
            let error = await #expect(throws: BrokerError.self) { try await broker.process(guest, as: "Guest") }
            #expect(error?.code == .unknownKey)
            for part in [#""firstName" of Guest; did you mean "first_name"?"#, "unknownKeys: .warn"] {
                #expect(error?.message.contains(part) == true, "\(String(describing: error))")
            }
            #expect(try await broker.objects(RawJSON.self, from: "Guest").collect().isEmpty)
            let warned = try await broker.process(guest, as: "Guest", unknownKeys: .warn)
            #expect(warned.warnings == [.init(code: .unknownKey, entity: "Guest", key: "firstName", count: 1)])
            // A payload as it came from a server may have more than the model.
            let raw = try await broker.process(json: #"{"id": 2, "first_name": "Grace", "extra": 1}"#, as: "Guest")
            #expect(raw.warnings.count == 1)
        }
    }

    private struct Seat: Codable, Hashable {
        struct Key: Codable, Hashable {
            var hall: String
            var number: Int
        }

        var hall: String
        var number: Int
        var isFree: Bool

        var key: Key { Key(hall: hall, number: number) }
    }

    private struct Ticket: Codable, Equatable {
        var id: Int
        var price: Decimal?
        var seat: Link<Seat.Key, Seat>?
        var owner: Link<Int, Owner>?
    }

    private struct Owner: Codable, Equatable {
        var id: Int
        var name: String
        var tickets: [Link<Int, Ticket>]?
    }

    private static let hall: EmbeddedBroker.ModelSource = .json(
        """
        {"entities": {
          "Seat": {"identity": ["hall", "number"],
            "attributes": {"hall": "string", "number": "integer32", "isFree": {"type": "boolean", "optional": false}}},
          "Ticket": {"identity": "id", "attributes": {"id": "integer64", "price": "decimal"},
            "relationships": {"seat": {"entity": "Seat"}, "owner": {"entity": "Owner", "inverse": "tickets"}}},
          "Owner": {"identity": "id", "attributes": {"id": "integer64", "name": "string"},
            "relationships": {"tickets": {"entity": "Ticket", "toMany": true, "inverse": "owner"}}}}}
        """)

    @Test func `a key of several attributes is a struct wherever a key is`() async throws {
        try await withTemporaryBroker(model: Self.hall) { broker in
            let seats = (1...3).map { Seat(hall: "A", number: $0, isFree: true) }
            let done = try await broker.process(seats, as: "Seat", reply: .keys)
            #expect(try done.keys(of: "Seat", as: Seat.Key.self).inserted == seats.map(\.key))
            try await broker.update("Seat", key: seats[0].key, with: ["isFree": false])
            #expect(try await broker.fetchObject(Seat.self, from: "Seat", key: seats[0].key)?.isFree == false)
            try await broker.process(Ticket(id: 1), as: "Ticket")
            try await broker.set("seat", of: "Ticket", key: 1, to: seats[1].key)
            #expect(try await broker.fetchObject(Ticket.self, from: "Ticket", key: 1)?.seat == .key(seats[1].key))
            let deleted = try await broker.delete("Seat", keys: [seats[2].key], reply: .keys)
            #expect(try deleted.keys(of: "Seat", as: Seat.Key.self).deleted == [seats[2].key])
            var query = Query("Seat")
            query.limit = 1
            let first = try await broker.fetch(query)
            #expect(try first.last?.decode(Seat.Key.self) == seats[0].key)
            query.afterKey = try RawJSON(value: seats[0].key)
            #expect(try await broker.fetch(query).decode([Seat].self) == [seats[1]])
        }
    }

    @Test func `a link is sent as a key or an object, and comes as what the fetch includes`() async throws {
        try await withTemporaryBroker(model: Self.hall) { broker in
            let seat = Seat(hall: "A", number: 1, isFree: true)
            let tickets = [
                Ticket(
                    id: 1, price: Decimal(string: "12.50"), seat: .object(seat),
                    owner: .object(Owner(id: 7, name: "Ada"))),
                Ticket(id: 2, seat: .key(seat.key), owner: .key(7)),
            ]
            try await broker.process(tickets, as: "Ticket")
            let keys = try await broker.objects(Ticket.self, from: "Ticket").collect()
            #expect(keys.map(\.seat) == [.key(seat.key), .key(seat.key)] && keys.map(\.owner) == [.key(7), .key(7)])
            #expect(keys[0].price == Decimal(string: "12.5"))
            let whole = try await broker.objects(Ticket.self, from: "Ticket", include: ["seat", "owner"]).collect()
            #expect(whole.map(\.seat) == [.object(seat), .object(seat)])
            #expect(whole[1].owner?.object?.name == "Ada")
            let owner = try await broker.fetchObject(Owner.self, from: "Owner", key: 7, include: ["tickets"])
            #expect(owner?.tickets?.map { $0.object?.id } == [1, 2])
            // The fetched values are sent again as they are.
            #expect(try await broker.process(whole, as: "Ticket").changes["Ticket"]?.unchanged == 2)
        }
    }

    @Test func `objects are returned once, and a duplicate says so`() async throws {
        try await withTemporaryBroker(model: Self.hall) { broker in
            let job = Job(try .process(Owner(id: 1, name: "Ada"), as: "Owner"), id: "a", reply: .objects)
            #expect(try await broker.process(job).objects(as: Owner.self).first == Owner(id: 1, name: "Ada"))
            let again = try await broker.process(job)
            let error = #expect(throws: BrokerError.self) { try again.objects(as: Owner.self) }
            #expect(error?.code == .notReturned && error?.message.contains("applied before") == true)
        }
    }
}
