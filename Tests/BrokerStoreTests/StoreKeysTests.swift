import BrokerModel
import Testing
import TestSupport

@testable import BrokerStore

/// The `keys` of an outcome: what was inserted and updated, by identity.
@Suite(.timeLimit(.minutes(5))) struct StoreKeysTests {
    private let store: TestStore

    init() throws { store = try TestStore(company) }

    @Test func `keys list the inserted and updated objects, and not the unchanged ones`() throws {
        try store.apply(#"{"Department": [{"id": 10}, {"id": 11, "name": "x"}]}"#)
        #expect(
            try store.keys(
                #"{"Department": [{"id": 3}, {"id": 10, "name": "y"}, {"id": 11, "name": "x"}, {"id": 12}]}"#)
                == #"{"Department":{"inserted":[3,12],"updated":[10],"deleted":[]}}"#)
    }

    @Test func `a compound key is an object, a row without identity is its row key, a text is escaped`() throws {
        #expect(
            try store.keys(
                #"""
                {"Seat": {"row": "A", "number": 4}, "Note": [{"text": "x"},
                  {"text": "y"}], "Item": {"code": "a\"\u0001"}}
                """#
            )
                == #"{"Item":{"inserted":["a\"\u0001"],"updated":[],"deleted":[]},"#
                + #""Note":{"inserted":[1,2],"updated":[],"deleted":[]},"#
                + #""Seat":{"inserted":[{"row":"A","number":4}],"updated":[],"deleted":[]}}"#)
    }

    @Test func `objects that changed without being in the payload have their keys, too`() throws {
        try store.apply(
            """
            {"Employee": [{"id": 1, "desk": 50}, {"id": 2, "desk": 51}],
              "Department": {"id": 10, "employees": [2, 1]}}
            """
        )
        #expect(
            try store.keys(#"{"Employee": {"id": 1, "desk": 51}, "Department": {"id": 10, "employees": null}}"#)
                == #"{"Department":{"inserted":[],"updated":[],"deleted":[]},"#
                + #""Desk":{"inserted":[],"updated":[51,50],"deleted":[]},"#
                + #""Employee":{"inserted":[],"updated":[1,2],"deleted":[]}}"#)
    }

    @Test func `an outcome without keys was not asked for them`() throws {
        guard case .completed(let outcome) = try store.apply(#"{"Desk": {"id": 1}}"#) else {
            Issue.record("the job failed")
            return
        }
        #expect(outcome.keys == nil)
        #expect(
            String(decoding: outcome.members, as: UTF8.self)
                == #""changes":{"Desk":{"inserted":1,"updated":0,"unchanged":0,"deleted":0,"rejected":0}},"#
                + #""rejected":[],"warnings":[]"#
        )
    }

    @Test func `binary keys are base64, booleans are words, and zero has one form`() throws {
        let store = try TestStore(
            """
            {"entities": {
              "Blob": {"identity": "b", "attributes": {"b": "binary"}},
              "Flag": {"identity": ["on", "n"], "attributes": {"on": "boolean", "n": "double"}},
              "Real": {"identity": "r", "attributes": {"r": {"type": "double", "max": 10}}, "relationships": {
                "next": {"entity": "Real"}}}
            }}
            """)
        #expect(
            try store.keys(#"{"Blob": {"b": "AAEP"}, "Flag": [{"on": false, "n": -0.0}, {"on": true, "n": 0}]}"#)
                == #"{"Blob":{"inserted":["AAEP"],"updated":[],"deleted":[]},"#
                + #""Flag":{"inserted":[{"on":false,"n":0.0},{"on":true,"n":0.0}],"updated":[],"deleted":[]}}"#)
        #expect(try store.changes(#"{"Real": [{"r": 0.0}, {"r": -0.0, "next": -0.0}]}"#) == ["Real +1 ~0 =0 !0"])
        #expect(try store.changes(#"{"Real": {"r": 0, "next": -0.0}}"#) == ["Real +0 ~0 =1 !0"])
        let fault = try #require(try store.fault(#"{"Real": {"r": 1, "next": 11}}"#))
        #expect(fault.code == .validationFailed, "a bare key is held to its attribute's limits")
        #expect(fault.path == "/Real/next")
    }
}
