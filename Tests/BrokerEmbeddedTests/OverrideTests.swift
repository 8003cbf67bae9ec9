import TestSupport
import Testing

import Broker
@testable import BrokerEmbedded

/// A model with others that change it.
@Suite(.timeLimit(.minutes(5))) struct OverrideTests {
    private let store = TestStore()

    @Test func `overrides change the model, each what those before it say`() async throws {
        let broker = try await EmbeddedBroker.open(
            store: .file(store.path), model: .json(TestStore.model),
            overrides: [
                .json(#"{"entities": {"Employee": {"attributes": {"name": {"key": "first"}, "hiredAt": null}}}}"#),
                .json(#"{"entities": {"Employee": {"attributes": {"name": {"key": "last"}}}}}"#),
            ])
        _ = try await broker.run(.process(json: #"{"id": 1, "first": "Ada", "last": "Lovelace"}"#, as: "Employee"))
        await broker.stop()
        #expect(try store.rows("SELECT * FROM Employee") == ["1|Lovelace|NULL"])
    }

    @Test func `a fault names its override`() async throws {
        let error = await #expect(throws: BrokerError.self) {
            _ = try await EmbeddedBroker.open(
                store: .file(store.path), model: .json(TestStore.model),
                overrides: [.json(#"{"entities": {"Emploee": null}}"#)])
        }
        #expect(
            error?.message
                == "override 1: line 1, column 16 (/entities/Emploee): there is no entity \"Emploee\" to remove; "
                + "did you mean \"Employee\"?")
    }
}
