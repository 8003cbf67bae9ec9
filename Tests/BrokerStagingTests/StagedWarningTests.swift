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

    @Test func `an unknown key is warned of once, with its path and its count`() throws {
        let staged = try staging.stage(
            """
            {"Person": [{"id": 1, "bunk": 1, "contact": {"phone": 1, "email": "a"}},
              {"bunk": {"deep": 1}, "id": 2, "friend": {"id": 3, "bunk": 2}}, {"id": 4, "contact": {"phone": 2}}]}
            """)
        #expect(staged.warnings == ["Person bunk 3", "Person contact.phone 2"])
    }

    @Test func `collections of one job count their unknown keys together`() throws {
        let staged = try staging.stage(
            #"{"Person": [{"id": 1, "x": 1}], "Note": {"x": 1}, "Person": [{"id": 2, "x": 1, "y": 1}]}"#)
        #expect(staged.warnings == ["Person x 2", "Note x 1", "Person y 1"])
    }

    @Test func `a record that uses keys as data costs one pass and a thousand warnings`() throws {
        // Quadratic work would take hours here.
        let keys = (0..<300_000).map { "\"k\($0)\":0" }.joined(separator: ",")
        let staged = try staging.stage("{\"Note\": {\(keys)}, \"Person\": [], \"Note\": {\(keys)}}")
        let named = (0..<1_000).map { "Note k\($0) 2" }
        #expect(staged.warnings == named + ["Note  598000"])
    }
}
