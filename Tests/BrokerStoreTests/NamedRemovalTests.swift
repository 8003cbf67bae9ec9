import Testing

@testable import BrokerSchema
@testable import BrokerStore

/// Parts that a model loses are retained or dropped by their names.
@Suite(.timeLimit(.minutes(5))) struct NamedRemovalTests {
    private static let before = """
        {"entities": {
          "Person": {"identity": "id", "unique": [["name"]],
            "attributes": {"id": "integer64", "name": "string", "nick": "string", "age": "integer16"},
            "relationships": {"pets": {"entity": "Pet", "toMany": true}}},
          "Pet": {"identity": "id", "attributes": {"id": "integer64"}}}}
        """
    /// Without `nick`, `age`, `pets`, `Pet` and the unique list.
    private static let after = """
        {"entities": {"Person": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}}}}
        """

    private func store() throws -> TestStore {
        let store = try TestStore(Self.before)
        try store.apply(#"{"Person": {"id": 1, "name": "a", "nick": "x", "age": 3, "pets": [{"id": 7}]}}"#)
        return store
    }

    private static let all = (keep: ["Person.nick", "Person.pets", "Pet"], drop: ["Person.age", "Person (name)"])

    @Test func `each named part stays or goes as its name says`() throws {
        let store = try store()
        try store.reopen(Self.after, removal: RemovalPolicy(keeping: Self.all.keep, dropping: Self.all.drop))
        #expect(
            store.store.migration.changes.map { "\($0.verdict) \($0.subject)" } == [
                "kept Person.nick", "dropped Person.age", "kept Person.pets", "kept Pet", "dropped Person (name)",
            ])
        try store.reopen()
        #expect(store.store.migration.changes.isEmpty)
        try store.reopen(Self.before)
        #expect(try store.rows("SELECT id, name, nick, age FROM Person") == ["1|a|x|NULL"])
        #expect(try store.rows("SELECT * FROM Person_pets") == ["1|7"])
    }

    @Test func `parts that are not named are refused`() throws {
        let store = try store()
        let changes = try Store.changes(
            path: store.path, plan: stagingPlan(Self.after),
            removal: RemovalPolicy(keeping: ["Pet"], dropping: ["Person.nick"]))
        #expect(
            changes.map { "\($0.verdict) \($0.subject)" } == [
                "dropped Person.nick", "refused Person.age", "refused Person.pets", "kept Pet", "refused Person (name)",
            ])
        #expect(
            try store.refusal(Self.after, RemovalPolicy(keeping: ["Pet"], dropping: ["Person.nick"]))?
                .contains("nothing was touched") == true)
    }

    @Test(arguments: ["Person.name", "Person.id", "Person", "Nobody", "person.nick", ""])
    func `a name of anything that the model does not remove is refused`(name: String) throws {
        let store = try store()
        for policy in [
            RemovalPolicy(keeping: Self.all.keep, dropping: Self.all.drop + [name]),
            RemovalPolicy(keeping: Self.all.keep + [name], dropping: Self.all.drop),
        ] {
            let message = try store.refusal(Self.after, policy)
            #expect(
                message?.contains("\(name) was named, and is no part that the model removes") == true,
                "\(message ?? "")")
        }
    }

    @Test func `what is kept needs what it leads to`() throws {
        let store = try store()
        let policy = RemovalPolicy(keeping: ["Person.pets"], dropping: ["Pet", "Person.nick"] + Self.all.drop)
        #expect(
            try store.refusal(Self.after, policy)?
                .contains("Person.pets cannot be retained: Pet is dropped, and it needs that") == true)
        // As before, also where it was kept by an earlier migration.
        try store.reopen(Self.after, removal: RemovalPolicy(keeping: Self.all.keep, dropping: Self.all.drop))
        #expect(
            try store.refusal(Self.after, RemovalPolicy(keeping: [], dropping: ["Pet"]))?
                .contains("Person.pets cannot be retained: Pet is dropped") == true)
        try store.reopen(Self.after, removal: RemovalPolicy(keeping: [], dropping: ["Pet", "Person.pets"]))
        #expect(
            store.store.migration.changes.map { "\($0.verdict) \($0.subject)" } == [
                "dropped Person.pets", "dropped Pet",
            ])
        #expect(try store.rows("SELECT id, name, nick FROM Person") == ["1|a|x"])
    }

    @Test func `an attribute is retyped by its name alone`() throws {
        let store = try store()
        let model = Self.before.replacing(#""age": "integer16""#, with: #""age": "boolean""#)
        #expect(try store.refusal(model) != nil)
        #expect(try store.refusal(model, RemovalPolicy(keeping: ["Person.age"], dropping: [])) != nil)
        try store.apply(#"{"Person": {"id": 1, "age": 1}}"#)
        try store.reopen(model, removal: RemovalPolicy(keeping: [], dropping: ["Person.age"]))
        #expect(try store.rows("SELECT age FROM Person") == ["1"])
    }

    @Test func `a log has what becomes of the parts in one line`() {
        for policy in [
            .refuse, .keep, .drop, RemovalPolicy(keeping: ["A.\"b\"", "É\n"], dropping: ["drop", "C (d, e)"]),
            RemovalPolicy(keeping: [], dropping: ["A"]),
        ] {
            #expect(!policy.line.contains("\n"))
            #expect(RemovalPolicy(line: policy.line) == policy)
        }
        for line in ["", "lose", "{}", #"{"keep":[],"drop":[]}"#, #"{"keep":["A"],"drop":[],"move":["B"]}"#] {
            #expect(RemovalPolicy(line: line) == nil, "\(line)")
        }
    }
}
