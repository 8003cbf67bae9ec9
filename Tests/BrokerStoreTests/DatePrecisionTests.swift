import BrokerModel
import BrokerStaging
import TestSupport
import Testing

@testable import BrokerStore

/// The digits of dates: what is stored, printed, compared and counted.
@Suite(.timeLimit(.minutes(5))) struct DatePrecisionTests {
    private static func model(_ at: String, more: String = "") -> String {
        #"{"entities": {"Item": {"identity": "id"\#(more), "attributes": {"id": "integer64", "at": {"type": "date"\#(at)}, "note": "string"}}}}"#
    }
    private static func precision(_ digits: Int) -> String { ", \"precision\": \(digits)" }

    private func item(_ at: String, id: Int = 1, note: String = "n") -> String {
        #"{"Item": {"id": \#(id), "at": \#(at), "note": "\#(note)"}}"#
    }

    @Test(arguments: [
        (0, "2020-01-02T03:04:05Z", 1), (3, "2020-01-02T03:04:05.678Z", 1), (6, "2020-01-02T03:04:05.678901Z", 1),
        (9, "2020-01-02T03:04:05.678901234Z", 0),
    ])
    func `a date is stored and printed with its precision, and lost digits are counted`(
        digits: Int, stored: String, inexact: Int
    ) throws {
        let store = try TestStore(Self.model(Self.precision(digits)))
        for sent in [
            "\"2020-01-02T03:04:05.678901234Z\"", "\"2020-01-02 04:04:05,678901234+01:00\"", "1577934245.678901234",
        ] {
            let outcome = try store.outcome(item(sent))
            #expect(outcome.warnings == (inexact == 0 ? [] : [Warning(.inexact, entity: "Item", key: "at", count: 1)]))
            #expect(try store.rows("SELECT at FROM Item") == [stored])
        }
        #expect(try store.fetch("Item") == #"[{"id":1,"at":"\#(stored)","note":"n"}]"#)
        let again = try store.outcome(item("\"\(stored)\""))
        #expect(again.described == ["Item +0 ~0 =1 !0"] && again.warnings == [])
        // More digits than any precision has, and before 1970.
        #expect(try store.outcome(item("\"2020-01-02T03:04:05.6789012345Z\"")).warnings.count == 1)
        #expect(try store.outcome(item("-0.0000000001")).warnings.count == 1)
        #expect(try store.outcome(item("\"2020-01-02T03:04:05.00000000000Z\"")).warnings == [])
        #expect(try store.outcome(item("1577934245")).warnings == [])
        #expect(try store.outcome(item("1.577934245e9")).warnings == [])
    }

    @Test func `other forms of storage count lost digits, too`() throws {
        let unix = try TestStore(Self.model(#", "storage": "unix", "format": "UnixTime""#))
        #expect(try unix.outcome(item("\"2020-01-02T03:04:05.001Z\"")).warnings.count == 1)
        #expect(try unix.outcome(item("1577934245001")).warnings.count == 1)
        #expect(try unix.outcome(item("1577934245000")).warnings == [])
        #expect(try unix.rows("SELECT at FROM Item") == ["1577934245"])
        let core = try TestStore(Self.model(#", "storage": "coreData""#))
        for (sent, count) in [("05.123456Z", 0), ("05.1Z", 0), ("05Z", 0), ("05.123456789Z", 1)] {
            let outcome = try core.outcome(item("\"2020-01-02T03:04:\(sent)\""))
            #expect(outcome.warnings.count == count, "\(sent)")
        }
        try core.apply(item("\"2020-01-02T03:04:05.123456Z\""))
        #expect(try core.fetch("Item").contains(#""2020-01-02T03:04:05.123456Z""#))
    }

    @Test(arguments: [
        "", ", \"precision\": 6", ", \"precision\": 9", ", \"precision\": 0", ", \"storage\": \"unix\"",
        ", \"storage\": \"coreData\"",
    ])
    func `a record is newer by each digit that was sent`(form: String) throws {
        let store = try TestStore(Self.model(form, more: #", "modified": "at""#))
        func note() throws -> [String] { try store.rows("SELECT note FROM Item") }
        // Beside the store, in jobs of their own.
        try store.apply(item("\"2020-01-02T03:04:05.0012Z\"", note: "a"))
        try store.apply(item("\"2020-01-02T03:04:05.0015Z\"", note: "b"))
        #expect(try note() == ["b"])
        try store.apply(item("\"2020-01-02T03:04:04.9999Z\"", note: "old"))
        #expect(try note() == ["b"])
        // In one job the records are compared with all their digits.
        let records = ["0.0019", "0.0017", "0.00171", "0.0018999"].enumerated().map { number, time in
            #"{"id": 2, "at": "2020-01-02T03:04:0\#(time)Z", "note": "\#(number)"}"#
        }
        try store.apply("{\"Item\": [\(records.joined(separator: ", "))]}")
        #expect(try store.rows("SELECT note FROM Item WHERE id = 2") == ["0"])
        try store.apply("{\"Item\": [\(records.reversed().joined(separator: ", "))]}")
        #expect(try store.rows("SELECT note FROM Item WHERE id = 2") == ["0"])
    }

    @Test
    func `with enough digits an older record within a millisecond is ignored, and a repeated one changes nothing`()
        throws
    {
        let store = try TestStore(
            Self.model(Self.precision(6), more: #", "modified": "at", "tombstone": "note == 'gone'""#))
        try store.apply(item("\"2020-01-02T03:04:05.0015Z\"", note: "b"))
        for time in ["0014", "001499999", "0015", "0015000"] {
            let outcome = try store.outcome(item("\"2020-01-02T03:04:05.\(time)Z\"", note: "x"))
            #expect(outcome.described == ["Item +0 ~0 =1 !0"], "\(time)")
        }
        try store.apply(item("\"2020-01-02T03:04:05.0013Z\"", note: "gone"))
        #expect(try store.rows("SELECT note FROM Item") == ["b"])
        try store.apply(item("\"2020-01-02T03:04:05.001500001Z\"", note: "c"))
        #expect(try store.rows("SELECT note, at FROM Item") == ["c|2020-01-02T03:04:05.001500Z"])
        try store.apply(item("\"2020-01-02T03:04:05.0016Z\"", note: "gone"))
        #expect(try store.rows("SELECT note FROM Item") == [])
    }

    @Test func `predicates, keys and pages agree with what is stored`() throws {
        let model =
            #"{"entities": {"Tick": {"identity": "at", "attributes": {"at": {"type": "date", "precision": 6}, "until": "date"}, "relationships": {"next": {"entity": "Tick"}}}}}"#
        let store = try TestStore(model)
        let times = ["000001", "000002", "0000029", "5", ""].map { "2020-01-02T03:04:05\($0.isEmpty ? "" : ".\($0)")Z" }
        let outcome = try store.outcome("{\"Tick\": [\(times.map { #"{"at": "\#($0)"}"# }.joined(separator: ", "))]}")
        #expect(outcome.described == ["Tick +4 ~0 =0 !0"], "two differ in what is cut off")
        func fetched(_ predicate: String) throws -> String {
            try store.fetch("Tick") { ($0.predicate, $0.select, $0.result) = (predicate, ["at"], .count) }
        }
        for (predicate, count) in [
            ("at == '2020-01-02T03:04:05.000002Z'", 1), ("at == '2020-01-02T03:04:05.0000029Z'", 1),
            ("at > '2020-01-02T03:04:05.000001Z'", 2), ("at < '2020-01-02T03:04:05.000002Z'", 2),
            ("at IN {'2020-01-02T03:04:05Z'}", 1),
        ] {
            #expect(try fetched(predicate).contains("\(count)"), "\(predicate)")
        }
        #expect(throws: Fault.self) { try fetched("at == until") }
        #expect(try store.fetch("Tick", object: "\"2020-01-02T03:04:05.5Z\"").contains("05.500000Z"))
        try store.apply(#"{"Tick": {"at": "2020-01-02T03:04:05.5Z", "next": "2020-01-02T03:04:05.000001Z"}}"#)
        #expect(try store.rows("SELECT count(*) FROM Tick") == ["4"])
        #expect(
            try store.run(#"{"op": "delete", "entity": "Tick", "objects": ["2020-01-02T03:04:05.5Z"]}"#) == "Tick -1")
    }

    @Test func `a higher precision is a migration, and a lower one is refused where digits would be lost`() throws {
        let store = try TestStore(Self.model(""))
        try store.apply(item("\"2020-01-02T03:04:05.12Z\""))
        #expect(try store.refusal(Self.model(Self.precision(9))) == nil)
        #expect(try store.rows("SELECT at FROM Item") == ["2020-01-02T03:04:05.120000000Z"])
        #expect(try store.changes(item("\"2020-01-02T03:04:05.12Z\"")) == ["Item +0 ~0 =1 !0"])
        #expect(try store.refusal(Self.model(Self.precision(3))) == nil)
        #expect(try store.rows("SELECT at FROM Item") == ["2020-01-02T03:04:05.120Z"])
        let refusal = try #require(try store.refusal(Self.model(Self.precision(0))))
        #expect(
            refusal.contains(
                "Item.at has the precision 3 in the store, and 0 in the model, which does not hold 2020-01-02T03:04:05.120Z "
                    + "(keep the precision)"), "\(refusal)")
        try store.apply(item("\"2020-01-02T03:04:05Z\""))
        #expect(try store.refusal(Self.model(Self.precision(0))) == nil)
        #expect(try store.rows("SELECT at FROM Item") == ["2020-01-02T03:04:05Z"])
        #expect(try store.isSound())
    }

    @Test func `links follow a converted identity`() throws {
        func model(_ digits: Int) -> String {
            #"{"entities": {"Tick": {"identity": "at", "attributes": {"at": {"type": "date", "precision": \#(digits)}}, "relationships": {"next": {"entity": "Tick"}}}}}"#
        }
        let store = try TestStore(model(3))
        try store.apply(#"{"Tick": {"at": "2020-01-01", "next": "2020-01-02"}}"#)
        try store.reopen(model(6))
        #expect(
            try store.rows("SELECT at, next FROM Tick ORDER BY at LIMIT 1") == [
                "2020-01-01T00:00:00.000000Z|2020-01-02T00:00:00.000000Z"
            ])
        #expect(try store.isSound())
    }

    @Test func `the model says where a precision belongs`() throws {
        for (at, part) in [
            (", \"precision\": 4", "0, 3, 6 or 9"), (", \"storage\": \"unix\", \"precision\": 0", "stored as text"),
            (", \"storage\": \"coreData\", \"precision\": 6", "stored as text"),
            (", \"precision\": \"3\"", "a whole number"),
        ] {
            let error = #expect(throws: ModelError.self) { _ = try stagingPlan(Self.model(at)) }
            #expect(error?.description.contains(part) == true, "\(at): \(error?.description ?? "")")
        }
        let error = #expect(throws: ModelError.self) {
            _ = try stagingPlan(
                #"{"entities": {"A": {"attributes": {"n": {"type": "calendarDate", "precision": 3}}}}}"#)
        }
        #expect(error?.description.contains("\"precision\" is for dates with a time") == true)
    }
}
