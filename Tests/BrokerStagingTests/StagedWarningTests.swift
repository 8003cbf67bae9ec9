import BrokerJSON
import BrokerModel
import Testing

@testable import BrokerStaging

@Suite(.timeLimit(.minutes(5))) struct StagedWarningTests {
    private let staging: Staging

    init() throws {
        staging = try Staging(
            """
            {"entities": {"Person": {"identity": "id", "attributes": {
              "id": "integer64", "email": {"type": "string", "key": "contact.email"}},
              "relationships": {"friend": {"entity": "Person"}}}, "Note": {"attributes": {"text": "string"}}}}
            """)
    }

    @Test func `an unknown key has one warning with its path and its count`() throws {
        let staged = try staging.stage(
            """
            {"Person": [{"id": 1, "bunk": 1, "contact": {"phone": 1, "email": "a"}},
              {"bunk": {"deep": 1}, "id": 2, "friend": {"id": 3, "bunk": 2}}, {"id": 4, "contact": {"phone": 2}}]}
            """)
        #expect(staged.warnings == ["Person bunk 3", "Person contact.phone 2"])
    }

    @Test(arguments: ["double", "float"])
    func `a number that becomes another one has a warning, a rounded fraction has none`(_ type: String) throws {
        let staging = try Staging(
            """
            {"entities": {"Size": {"identity": "id", "attributes": {"id": "integer64", "value": "\(type)", "other": "\(type)"}},
             "Mark": {"identity": "at", "attributes": {"at": "\(type)"}},
             "Note": {"attributes": {"text": "string"}, "relationships": {"mark": {"entity": "Mark"}}}}}
            """)
        let exact = [
            "0.1", "1e-300", "1.5", "0.10000000000000001", "3.14159265358979323846264338327950288", "0", "-0.0",
            "0e-999",
            "9007199254740992", "-9007199254740992", "9007199254740994", "9223372036854775808", "1e22", "1e23",
            "123456789012345680000", "123456789012345683968", "36893488147419103232", "9.9999999999999992e22",
            "\"0.1\"", "\"9007199254740992\"", "true", "null",
        ]
        let inexact = [
            "9007199254740993", "-9007199254740993", "9223372036854775807", "123456789012345678901", "1e-400",
            "-1e-400",
            "0.\(String(repeating: "0", count: 400))1", "\"9007199254740993\"", "\"1e-400\"",
        ]
        for (number, text) in (exact + inexact).enumerated() {
            let limited = type == "float" && text.contains("1e300")
            guard !limited else { continue }
            let staged = try staging.stage(#"{"Size": {"id": \#(number), "value": \#(text)}}"#)
            #expect(staged.warnings == (number < exact.count ? [] : ["Size value 1"]), "\(text)")
        }
        let staged = try staging.stage(
            """
            {"Size": [{"id": 1, "value": 9007199254740993, "other": 1e-400}, {"id": 2, "value": 9007199254740995}],
             "Note": {"mark": 9007199254740993}}
            """)
        #expect(staged.warnings == ["Size value 2", "Size other 1", "Mark at 1"])
    }

    /// A model with limits that inexact numbers break.
    private static let limited = """
        {"entities": {"Size": {"identity": "id", "attributes": {
            "id": "integer64", "skipped": {"type": "double", "max": 5, "onInvalid": "skip"},
            "cleared": {"type": "double", "max": 5, "onInvalid": "null"}, "required": {"type": "double", "max": 5},
            "large": "double", "small": "double"}},
         "Mark": {"identity": "at", "attributes": {"at": "double", "text": "string"}},
         "Note": {"attributes": {"text": "string"}, "relationships": {"mark": {"entity": "Mark"}}}}}
        """

    @Test(arguments: ["skipped", "cleared"])
    func `a number that is not stored is not inexact, and neither is the next value`(_ name: String) throws {
        let staged = try Staging(Self.limited).stage(
            #"{"Size": {"id": 1, "\#(name)": 9007199254740993, "large": 0.5, "small": 0.5}}"#)
        #expect(staged.warnings == ["Size \(name) 1"], "as an ignored value")
    }

    @Test func `the numbers of a rejected record have no warning`() throws {
        let staged = try Staging(Self.limited).stage(
            """
            {"Size": [{"id": 1, "large": 9007199254740993, "small": "x"}, {"id": 2, "large": 1, "required": 9007199254740993},
             {"id": 3, "large": 2, "small": 1e-400}]}
            """, .skip)
        #expect(staged.warnings == ["Size small 1"])
    }

    @Test func `a key that names another number has a warning`() throws {
        let staging = try Staging(Self.limited)
        let mark = try #require(staging.plan.model.index(ofEntity: "Mark"))
        let document = try JSONDocument(
            parsing: JSONText(copying: Array(#"{"keys": [9007199254740993, 1], "json": {"text": "a"}}"#.utf8)))
        try withExtendedLifetime(document) {
            let keys = try #require(document.root["keys"])
            let named = StagingOperation(entity: mark, json: keys, .name)
            let changed = StagingOperation(
                entity: mark, json: try #require(document.root["json"]),
                .change(object: try #require(keys.elements.first { _ in true })))
            for operation in [named, changed] {
                let collections = JobCollection.collections(of: [operation], in: document)
                let parts = try collections.map { try $0.stage(staging.plan, .fail) }
                let staged = Staged(rows: StagedJobRows.unite(parts, staging.plan), plan: staging.plan)
                #expect(staged.warnings == ["Mark at 1"])
            }
        }
    }

    @Test func `each attribute of a key that names another number has a warning`() throws {
        let staging = try Staging(
            #"{"entities": {"Place": {"identity": ["x", "y"], "attributes": {"x": "double", "y": "double"}}}}"#)
        let document = try JSONDocument(
            parsing: JSONText(copying: Array(#"[{"x": 9007199254740993, "y": 1}, {"x": 1, "y": 1e-400}]"#.utf8)))
        try withExtendedLifetime(document) {
            let parts = try JobCollection.collections(
                of: [StagingOperation(entity: 0, json: document.root, .name)], in: document
            ).map { try $0.stage(staging.plan, .fail) }
            let staged = Staged(rows: StagedJobRows.unite(parts, staging.plan), plan: staging.plan)
            #expect(staged.warnings == ["Place x 1", "Place y 1"])
        }
    }

    @Test func `collections of one job count their unknown keys together`() throws {
        let staged = try staging.stage(
            #"{"Person": [{"id": 1, "x": 1}], "Note": {"x": 1, "text": "t"}, "Person": [{"id": 2, "x": 1, "y": 1}]}"#)
        #expect(staged.warnings == ["Person x 2", "Note x 1", "Person y 1"])
    }

    @Test func `a record that uses keys as data costs one pass and a thousand warnings`() throws {
        // Quadratic work would take hours here.
        let keys = "\"text\":\"t\"," + (0..<300_000).map { "\"k\($0)\":0" }.joined(separator: ",")
        let staged = try staging.stage("{\"Note\": {\(keys)}, \"Person\": [], \"Note\": {\(keys)}}")
        let named = (0..<1_000).map { "Note k\($0) 2" }
        #expect(staged.warnings == named + ["Note  598000"])
    }
}
