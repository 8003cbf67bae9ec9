import BrokerModel
import BrokerStaging
import TestSupport
import Testing

@testable import BrokerSchema
@testable import BrokerStore

/// Types that hold less than those before: values become what a record with them would store, and the others go to `_extra`.
@Suite(.timeLimit(.minutes(5))) struct RetypeTests {
    private static func model(_ attribute: String, extra: String = "") -> String {
        """
        {"entities": {"Item": {"identity": "id", \(extra)
          "attributes": {"id": "integer64", "v": \(attribute)}}}}
        """
    }

    private static let extra = #""extra": true,"#

    /// The types before and after, the values of records, the rows after, and how many values go to `_extra`.
    struct Case: CustomTestStringConvertible, Sendable {
        let before, after, values: String
        let rows: [String]
        let moved: Int
        var column = "v"
        var testDescription: String { "\(before) to \(after)" }
    }

    private static let cases = [
        Case(
            before: #""string""#, after: #""integer64""#,
            values: #"["7", "007", "much", "", null, "9223372036854775808", "1.0"]"#,
            rows: [
                "7|NULL", #"NULL|{"v":"007"}"#, #"NULL|{"v":"much"}"#, #"NULL|{"v":""}"#, "NULL|NULL",
                #"NULL|{"v":"9223372036854775808"}"#, "1|NULL",
            ], moved: 4),
        Case(
            before: #""string""#, after: #"{"type": "date", "format": "dd.MM.yyyy"}"#,
            values: #"["24.09.2012", "2012-09-24T01:02:03Z", "soon"]"#,
            rows: ["2012-09-24T00:00:00.000Z|NULL", "2012-09-24T01:02:03.000Z|NULL", #"NULL|{"v":"soon"}"#], moved: 1),
        Case(
            before: #""double""#, after: #""integer16""#, values: "[2, 2.5, 40000, -1.0]",
            rows: ["2|NULL", #"NULL|{"v":2.5}"#, #"NULL|{"v":40000.0}"#, "-1|NULL"], moved: 2),
        Case(
            before: #""integer64""#, after: #""double""#, values: "[1, 9007199254740993, -9007199254740992]",
            rows: ["1|NULL", #"NULL|{"v":9007199254740993}"#, "-9007199254740992|NULL"], moved: 1,
            column: "CAST(v AS INTEGER)"),
        Case(
            before: #""decimal""#, after: #"{"type": "decimal", "storage": "scaled", "scale": 2}"#,
            values: #"["1.50", "1.505"]"#, rows: ["150|NULL", #"NULL|{"v":1.505}"#], moved: 1),
        Case(
            before: #"{"type": "date", "precision": 6}"#, after: #"{"type": "date", "storage": "unix"}"#,
            values: #"["2020-01-02T03:04:05.000000Z", "2020-01-02T03:04:05.000001Z"]"#,
            rows: ["1577934245|NULL", #"NULL|{"v":"2020-01-02T03:04:05.000001Z"}"#], moved: 1),
        Case(
            before: #"{"type": "date", "timeZone": "Europe/Berlin"}"#, after: #""calendarDate""#,
            values: #"["2020-07-01T22:00:00Z", "2020-07-01T00:00:00Z"]"#,
            rows: ["2020-07-02|NULL", #"NULL|{"v":"2020-07-01T00:00:00.000Z"}"#], moved: 1),
        Case(
            before: #""transformable""#, after: #""string""#, values: #"["x", {"a": [1]}, 5]"#,
            rows: ["x|NULL", #"NULL|{"v":{"a":[1]}}"#, "5|NULL"], moved: 1),
        Case(
            before: #""string""#, after: #""boolean""#, values: #"["yes", "false", "maybe"]"#,
            rows: ["1|NULL", "0|NULL", #"NULL|{"v":"maybe"}"#], moved: 1),
    ]

    private func store(_ attribute: String, _ values: String, extra: String = extra) throws -> TestStore {
        let store = try TestStore(Self.model(attribute, extra: extra))
        let elements = values.dropFirst().dropLast().split(separator: ", ").enumerated().map {
            #"{"id": \#($0), "v": \#($1)}"#
        }
        try store.apply(#"{"Item": [\#(elements.joined(separator: ","))]}"#)
        return store
    }

    @Test(arguments: cases, [extra, ""])
    func `a value that the type holds is converted, and any other goes to _extra`(test: Case, before: String) throws {
        let store = try store(test.before, test.values, extra: before)
        let model = Self.model(test.after, extra: Self.extra)
        let planned = try Store.changes(path: store.path, plan: stagingPlan(model), removal: .drop)
        #expect(planned.first { $0.subject == "Item.v" }?.loss?.count == Int64(test.moved), "\(planned)")
        try store.reopen(model, removal: .drop)
        #expect(try store.rows("SELECT \(test.column), _extra FROM Item ORDER BY id") == test.rows)
        let note = try store.rows("SELECT changes FROM _broker_migrations ORDER BY rowid DESC LIMIT 1")
        #expect(note.first?.contains("what it does not hold goes to _extra") == true, "\(note)")
        // And back: they are taken again.
        if test.before == #""string""# {
            try store.reopen(Self.model(test.before, extra: Self.extra))
            #expect(try store.rows("SELECT count(*) FROM Item WHERE _extra IS NOT NULL") == ["0"])
        }
    }

    @Test(arguments: [
        (
            #""string""#, #""integer64""#, "",
            "Item.v is string in the store, and integer64 in the model, which does not hold much"
        ),
        (
            #""string""#, #"{"type": "integer64", "optional": false, "default": 1}"#, extra, "which does not hold much"
        ), (#""string""#, #"{"type": "integer64", "key": []}"#, extra, "which does not hold much"),
    ])
    func `nothing is lost where _extra cannot take it`(before: String, after: String, extra: String, text: String)
        throws
    {
        let store = try store(before, #"["much", "1"]"#)
        let message = try store.refusal(Self.model(after, extra: extra), .drop)
        #expect(message?.contains(text) == true, "\(message ?? "")")
        #expect(try store.rows("SELECT v, _extra FROM Item ORDER BY id") == ["much|NULL", "1|NULL"])
    }

    @Test(arguments: [RemovalPolicy.refuse, .keep])
    func `without a demand the type stays`(removal: RemovalPolicy) throws {
        let store = try store(#""string""#, #"["1", "2"]"#)
        let message = try store.refusal(Self.model(#""integer64""#, extra: Self.extra), removal)
        #expect(message?.contains("let `broker model retype` convert the values") == true, "\(message ?? "")")
        // And the store without extra values, if each value fits.
        try store.reopen(Self.model(#""integer64""#), removal: .drop)
        #expect(try store.rows("SELECT v FROM Item ORDER BY id") == ["1", "2"])
    }

    @Test func `an identity keeps its type, and a unique list its values`() throws {
        let model =
            #"{"entities": {"A": {"identity": "id", "extra": true, "attributes": {"id": "string", "v": {"type": "string", "unique": true}}}}}"#
        let store = try TestStore(model)
        try store.apply(#"{"A": [{"id": "1", "v": "1"}, {"id": "2", "v": "1.0"}]}"#)
        let key = try store.refusal(model.replacing(#""id": "string""#, with: #""id": "integer64""#), .drop)
        #expect(
            key?.contains("A.id is string in the store, and integer64 in the model (keep the type") == true,
            "\(key ?? "")")
        let unique = try store.refusal(model.replacing(#""type": "string""#, with: #""type": "integer64""#), .drop)
        #expect(unique?.contains("would be equal") == true, "\(unique ?? "")")
    }

    @Test func `in a hierarchy each entity's values are converted, of several attributes at once, and renamed ones`()
        throws
    {
        let store = try TestStore(
            """
            {"entities": {
              "Base": {"identity": "id", "extra": true, "attributes": {"id": "integer64", "a": "string"}},
              "Sub": {"parent": "Base", "attributes": {"b": {"type": "string", "key": "deep.b"}}}}}
            """)
        try store.apply(
            #"{"Base": [{"id": 1, "a": "x"}], "Sub": [{"id": 2, "a": "2", "deep": {"b": "y"}}, {"id": 3, "a": "z", "deep": {"b": "3"}, "n": 1}]}"#
        )
        try store.reopen(
            """
            {"entities": {
              "Base": {"identity": "id", "extra": true, "attributes": {
                "id": "integer64", "c": {"type": "integer64", "renamedFrom": "a"}}},
              "Sub": {"parent": "Base", "attributes": {"b": {"type": "double", "key": "deep.b"}}}}}
            """, removal: .drop)
        #expect(
            try store.rows("SELECT c, b, _extra FROM Base ORDER BY id") == [
                #"NULL|NULL|{"a":"x"}"#, #"2|NULL|{"deep":{"b":"y"}}"#, #"NULL|3.0|{"a":"z","n":1}"#,
            ])
        #expect(try store.isSound())
    }

    @Test func `an object that would have too many extra values stops the migration`() throws {
        let store = try store(#""string""#, #"["much"]"#)
        let keys = (0..<2_000).map { #""k\#($0)": 1"# }.joined(separator: ",")
        try store.apply(#"{"Item": {"id": 0, \#(keys)}}"#)
        #expect(throws: StoreError.self) {
            try store.reopen(Self.model(#""integer64""#, extra: Self.extra), removal: .drop)
        }
        try store.reopen(Self.model(#""string""#, extra: Self.extra))
        #expect(try store.rows("SELECT v FROM Item") == ["much"])
    }

    @Test(arguments: [(#""integer16""#, #""integer64""#, "integer64"), (#""uuid""#, #""string""#, "string")])
    func `a column is declared and described by its type`(before: String, after: String, type: String) throws {
        let store = try store(before, "[null]")
        try store.apply(
            #"{"Item": {"id": 1, "v": \#(type == "string" ? #""0d3a4e4c-0000-0000-0000-0000000000ff""# : "7")}}"#)
        try store.reopen(Self.model(after, extra: Self.extra))
        let sql = try store.rows("SELECT sql FROM sqlite_schema WHERE name = 'Item'")
        #expect(sql.first?.contains("/* \(type) */") == true && sql.first?.contains("UUID") == false, "\(sql)")
    }
}
