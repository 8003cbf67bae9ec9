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
