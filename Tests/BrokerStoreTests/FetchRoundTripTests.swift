import BrokerJSON
import BrokerModel
import TestSupport
import Testing

@testable import BrokerStore

/// Objects that are fetched with remote names and processed again change nothing.
@Suite(.timeLimit(.minutes(5))) struct FetchRoundTripTests {
    private static let model = """
        {"keyStyle": "snakeCase", "entities": {
          "Thing": {"identity": "thingId", "attributes": {
            "thingId": {"type": "integer64", "key": "id"},
            "email": {"type": "string", "key": ["contact.email", "email"]},
            "phone": {"type": "string", "key": "contact.phone"},
            "ownerName": {"type": "string", "key": "owner.name"},
            "price": "decimal", "ratio": "double", "half": "float", "isNew": "boolean", "data": "binary",
            "code": "uuid", "link": "uri", "extra": "transformable",
            "plain": "date", "birthday": "calendarDate", "died": {"type": "calendarDate", "format": "dd/MM/yy"},
            "hiredAt": {"type": "date", "format": "yyyy/MM/dd HH:mm:ss Z"},
            "day": {"type": "date", "format": "yyyy-MM-dd", "timeZone": "Europe/Berlin"},
            "seen": {"type": "date", "format": "EEE, d MMM yy h:mm a", "storage": "unix"},
            "touched": {"type": "date", "formats": ["dd.MM.yyyy", "HH:mm yyyy"], "storage": "coreData"},
            "week": {"type": "date", "format": "YYYY-'W'ww-e"}},
           "relationships": {
            "owner": {"entity": "Owner"}, "place": {"entity": "Place"}, "tag": {"entity": "Tag"},
            "parts": {"entity": "Thing", "toMany": true, "inverse": "whole", "assignment": "replace"},
            "whole": {"entity": "Thing", "inverse": "parts", "key": "links.whole"}}},
          "Owner": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}},
          "Place": {"identity": ["rowName", "number"], "attributes": {"rowName": "string", "number": "decimal"}},
          "Tag": {"identity": "label", "identityOptional": true, "attributes": {"label": "string", "note": "string"}}}}
        """

    private static let things = """
        [{"id": 1, "contact": {"email": "a@b", "phone": null}, "price": 12345678901234567890.123456789, "ratio": 0.1,
          "half": 1.5, "is_new": true, "data": "AAEC/w==", "code": "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
          "link": "https://example.org/ä", "extra": {"a": [1, null, "\\u0001\\"ü"], "b": 1.0},
          "plain": "2011-12-22T02:24:51.123Z", "birthday": "1985-12-10", "died": "24/12/11",
          "hired_at": "2011/12/22 02:24:51 +0200", "day": "2011-07-01",
          "seen": "Thu, 22 Dec 11 2:24 PM", "touched": "22.12.2011", "week": "2011-W51-5",
          "owner": {"id": 7, "name": "O"}, "place": {"row_name": "a", "number": 1.50}, "tag": {"label": "t"},
          "links": {"whole": 2}},
         {"id": 2, "email": "second", "hired_at": "2011-12-22T02:24:51.999Z", "day": "2011-07-01T12:00:00Z", "died": "1852-11-27",
          "seen": 1324563891, "touched": -0.001, "week": 1324563891.5, "ratio": -1e300, "price": -0.5,
          "tag": {"note": "nameless"}, "extra": "text", "is_new": false, "data": ""},
         {"id": 3, "extra": false, "touched": "1969-12-31T23:59:59.001Z", "plain": "0001-01-01", "whole": null}]
        """

    @Test(arguments: [[], ["owner", "parts.place", "whole.parts"]])
    func `objects that are fetched with remote names and processed again change nothing`(include: [String]) throws {
        let store = try TestStore(Self.model)
        try store.apply(#"{"Thing": \#(Self.things)}"#)
        let before = try store.rows("SELECT * FROM Thing ORDER BY 1")
        let fetched = try store.fetch("Thing") { $0.include = include }
        let outcome = try store.outcome(#"{"Thing": \#(fetched)}"#)
        #expect(
            outcome.changes.allSatisfy { $0.counts.inserted == 0 && $0.counts.updated == 0 }, "\(outcome.described)")
        #expect(try store.rows("SELECT * FROM Thing ORDER BY 1") == before)
        if include.isEmpty { #expect(outcome.warnings.isEmpty) }
    }

    @Test func `a date with the format UnixTime is fetched as a number of seconds, and processed again unchanged`()
        throws
    {
        let store = try TestStore(
            #"{"entities": {"A": {"identity": "id", "attributes": {"id": "integer64", "at": {"type": "date", "format": "UnixTime"}}}}}"#
        )
        try store.apply(
            #"{"A": [{"id": 1, "at": 1388349427543}, {"id": 2, "at": -1388349427543}, {"id": 3, "at": 5}]}"#)
        let fetched = try store.fetch("A")
        #expect(fetched.contains(#""at":1388349427.543"#) && fetched.contains(#""at":5}"#), "\(fetched)")
        #expect(try store.changes("{\"A\": \(fetched)}") == ["A +0 ~0 =3 !0"])
    }

    @Test func `remote values are where the mapping finds them, in the attribute's first format`() throws {
        let store = try TestStore(Self.model)
        try store.apply(#"{"Thing": \#(Self.things)}"#)
        let one = try store.fetch("Thing", object: "1")
        for part in [
            #""id":1"#, #""contact":{"email":"a@b","phone":null}"#, #""price":12345678901234567890.123456789"#,
            #""is_new":true"#, #""data":"AAEC/w==""#, #""code":"6BA7B810-9DAD-11D1-80B4-00C04FD430C8""#,
            #""extra":{"a":[1,null,"\u0001\"ü"],"b":1.0}"#, #""plain":"2011-12-22T02:24:51.123Z""#,
            #""birthday":"1985-12-10""#, #""died":"24/12/11""#,
            #""hired_at":"2011/12/22 00:24:51 +0000""#, #""day":"2011-07-01""#, #""seen":"Thu, 22 Dec 11 2:24 PM""#,
            #""touched":"22.12.2011""#, #""week":"2011-W51-5""#, #""owner":7"#,
            #""place":{"row_name":"a","number":1.50}"#, #""tag":"t""#, #""links":{"whole":2}"#,
        ] {
            #expect(one.contains(part), "\(part) in \(one)")
        }
        // A value that the format cannot express is written in another way.
        let two = try store.fetch("Thing", object: "2")
        #expect(two.contains(#""hired_at":"2011-12-22T02:24:51.999Z""#))
        #expect(two.contains(#""died":"1852-11-27""#))
        #expect(two.contains(#""day":"2011-07-01T12:00:00.000Z""#))
        #expect(two.contains(#""email":"second""#))
        #expect(!two.contains(#""tag""#))
    }

    @Test func `local names are the model's, with dates in ISO 8601`() throws {
        let store = try TestStore(Self.model)
        try store.apply(#"{"Thing": \#(Self.things)}"#)
        let one = try store.fetch("Thing", object: "1") { $0.names = .local }
        for part in [
            #""thingId":1"#, #""email":"a@b","phone":null"#, #""hiredAt":"2011-12-22T00:24:51.000Z""#,
            #""day":"2011-06-30T22:00:00.000Z""#, #""touched":"2011-12-22T00:00:00.000Z""#,
            #""place":{"rowName":"a","number":1.50}"#, #""tag":1"#, #""whole":2"#, #""ownerName":"O""#,
        ] {
            #expect(one.contains(part), "\(part) in \(one)")
        }
    }

    @Test func `a random company fetched with everything nested and processed again changes nothing`() throws {
        var payload = CompanyPayload(generator: SeededGenerator())
        let store = try TestStore(company)
        for _ in 0..<30 { _ = try store.apply(payload.collections(count: 6)) }
        for (entity, include) in [
            ("Employee", ["department.employees", "projects.members", "friends", "skills", "desk.owner", "spouse"]),
            ("Department", ["employees.manager", "employees.reports"]), ("Project", ["members.projects"]),
            ("Desk", ["owner.desk"]), ("Employee", []),
        ] {
            let fetched = try store.fetch(entity) { $0.include = include }
            let outcome = try store.outcome(#"{"\#(entity)": \#(fetched)}"#)
            #expect(
                outcome.changes.allSatisfy { $0.counts.inserted == 0 && $0.counts.updated == 0 },
                "\(entity) \(include): \(outcome.described)")
        }
    }
}
