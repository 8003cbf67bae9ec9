import TestSupport
import Testing

private let hierarchyModel = """
    {"entities": {
      "Person": {"identity": "id", "modified": "rev",
        "attributes": {"id": "integer64", "rev": "integer64", "name": "string"}},
      "Employee": {"parent": "Person", "attributes": {"salary": {"type": "integer64", "optional": false}},
        "relationships": {"boss": {"entity": "Person"}}},
      "Manager": {"parent": "Employee"},
      "Guest": {"parent": "Person"},
      "Thing": {"abstract": true, "identity": "id", "attributes": {"id": "integer64", "name": "string"}},
      "Car": {"parent": "Thing"},
      "Record": {"abstract": true},
      "User": {"parent": "Record", "identity": "login", "attributes": {"login": "string", "age": "integer16"}}
    }}
    """

/// Operations on entities that inherit from others.
@Suite(.timeLimit(.minutes(5)), .session(hierarchyModel)) struct HierarchyOperationTests {
    private let session = OperationSession.current

    @Test func `a record that is not newer does not say what its object is`() throws {
        _ = try session.counts(#"{"entity": "Person", "json": [{"id": 1, "rev": 5}]}"#)
        let stale = try session.counts(
            #"{"entity": "Employee", "json": [{"id": 1, "rev": 4, "salary": 1, "boss": {"id": 8}}]}"#)
        #expect(stale == "Person +1 =1", "the nested one is applied")
        let newer = try session.counts(#"{"entity": "Employee", "json": [{"id": 1, "rev": 6, "salary": 1}]}"#)
        #expect(newer == "Employee ~1")
        let both = try session.counts(
            #"{"collections": {"Person": [{"id": 2, "rev": 9}], "Manager": [{"id": 2, "rev": 8, "salary": 1}]}}"#)
        #expect(both == "Person +1")
        let rows = try session.rows("SELECT id, rev, salary, _entity FROM Person ORDER BY id")
        #expect(rows == ["1|6|1|Employee", "2|9|NULL|Person", "8|NULL|NULL|Person"])
    }

    @Test func `an object that is named by its key keeps what it is, and takes a new identity`() throws {
        _ = try session.counts(#"{"entity": "Car", "json": [{"id": 7}]}"#)
        let renamed = try session.counts(#"{"entity": "Thing", "object": 7, "json": {"id": 70, "name": "n"}}"#)
        #expect(renamed == "Car ~1")
        let missing = try session.counts(#"{"entity": "Thing", "object": 7, "json": {"name": "x"}}"#)
        #expect(missing == "objectNotFound /object")
        let rows = try session.rows("SELECT id, name, _entity FROM Thing")
        #expect(rows == ["70|n|Car"])
        _ = try session.counts(#"{"entity": "User", "json": [{"login": "a", "age": 1}]}"#)
        let filled = try session.counts(#"{"entity": "User", "object": "a", "json": {"age": 2}}"#)
        #expect(filled == "User ~1")
        let users = try session.rows("SELECT login, age FROM User")
        #expect(users == ["a|2"])
    }

    @Test func `object, relate and delete need an object of the entity`() throws {
        _ = try session.counts(
            #"{"collections": {"Person": [{"id": 1}], "Guest": [{"id": 2}], "Manager": [{"id": 3, "salary": 1}]}}"#)
        let became = try session.counts(#"{"entity": "Employee", "object": 1, "json": {"salary": 5}}"#)
        #expect(became == "Employee ~1")
        let refused = try session.counts(#"{"entity": "Employee", "object": 2, "json": {"salary": 5}}"#)
        #expect(refused == "objectNotFound /object")
        let below = try session.counts(#"{"entity": "Employee", "object": 3, "json": {"salary": 6}}"#)
        #expect(below == "Manager ~1")
        let related = try session.counts(
            #"{"op": "relate", "entity": "Employee", "object": 2, "relationship": "boss", "json": 1}"#)
        #expect(related == "objectNotFound /object")
        let deleted = try session.client.ask(#"{"op": "delete", "entity": "Employee", "objects": [1, 2, 3]}"#)
        #expect(deleted["warnings.0.count"] == "1" || deleted["warnings"]?.contains(#""count":1"#) == true)
        let rows = try session.rows("SELECT id, _entity FROM Person")
        #expect(rows == ["2|Guest"])
    }

    @Test func `sync and fetch of an entity are about it and what inherits from it`() throws {
        _ = try session.counts(
            #"{"collections": {"Person": [{"id": 1}], "Guest": [{"id": 2}], "Manager": [{"id": 3, "salary": 1}], "Employee": [{"id": 4, "salary": 9}]}}"#
        )
        let fetched = try session.client.ask(
            #"{"type": "fetch", "entity": "Employee", "names": "local", "where": "salary > 0", "sort": ["-id"]}"#)
        #expect(
            fetched["objects"]
                == #"[{"id":4,"rev":null,"name":null,"salary":9,"boss":null,"entity":"Employee"},{"id":3,"rev":null,"name":null,"salary":1,"boss":null,"entity":"Manager"}]"#
        )
        let guests = try session.client.ask(#"{"type": "fetch", "entity": "Guest", "names": "local"}"#)
        #expect(guests["objects"] == #"[{"id":2,"rev":null,"name":null,"entity":"Guest"}]"#)
        let another = try session.client.ask(#"{"type": "fetch", "entity": "Guest", "object": 3}"#)
        #expect(another["objects"] == "[]")
        let synced = try session.counts(#"{"op": "sync", "entity": "Employee", "json": [{"id": 4, "salary": 9}]}"#)
        #expect(synced == "Employee =1, Manager -1")
        let all = try session.counts(#"{"op": "sync", "entity": "Person", "json": [{"id": 2}]}"#)
        #expect(all == "Employee -1, Guest =1, Person -1")
    }

    // MARK: - Identities below

    private static let filesModel = """
        {"entities": {
          "Item": {"abstract": true, "attributes": {"note": "string"}, "relationships": {"other": {"entity": "Item"}}},
          "File": {"parent": "Item", "identity": "path",
            "attributes": {"path": "string", "size": "integer64"},
            "relationships": {"links": {"entity": "Link", "toMany": true, "inverse": "target"}}},
          "Script": {"parent": "File", "attributes": {"language": "string"}},
          "Link": {"parent": "Item", "identity": ["host", "port"],
            "attributes": {"host": "string", "port": "integer64"},
            "relationships": {"target": {"entity": "File", "inverse": "links"}}},
          "Scrap": {"parent": "Item"}}}
        """

    @Test(.session(filesModel)) func `keys contain the identity of an entity below a topmost one that has none`() throws
    {
        let made = try session.client.ask(
            #"{"reply": "keys", "collections": {"Scrap": [{"note": "s"}], "File": [{"path": "a", "size": 1}, {"path": "b"}], "Script": [{"path": "c"}], "Link": [{"host": "h", "port": 5}]}}"#
        )
        #expect(made["keys.File.inserted"] == #"["a","b"]"#)
        #expect(made["keys.Script.inserted"] == #"["c"]"#)
        #expect(made["keys.Link.inserted"] == #"[{"host":"h","port":5}]"#)
        #expect(made["keys.Scrap.inserted"] == "[1]")
        let changed = try session.client.ask(
            #"{"reply": "keys", "operations": [{"entity": "File", "json": [{"path": "a", "size": 2}, {"path": "c", "size": 3}]}, {"op": "delete", "entity": "Link", "objects": [{"host": "h", "port": 5}]}, {"op": "delete", "entity": "File", "objects": ["b", "b", "x"]}]}"#
        )
        #expect(changed["keys.File.updated"] == #"["a"]"#, "\(changed.text)")
        #expect(changed["keys.Script.updated"] == #"["c"]"#)
        #expect(changed["keys.File.deleted"] == #"["b"]"#)
        #expect(changed["keys.Link.deleted"] == #"[{"host":"h","port":5}]"#)
        #expect(changed["warnings"]?.contains(#""count":1"#) == true)
        let all = try session.client.ask(
            #"{"reply": "keys", "op": "delete", "entity": "Item", "where": "TRUEPREDICATE"}"#)
        #expect(all["keys.File.deleted"] == #"["a"]"#)
        #expect(all["keys.Script.deleted"] == #"["c"]"#)
    }

    @Test(.session(filesModel))
    func `object and relate take the identity of an entity below a topmost one that has none`() throws {
        let made = try session.client.ask(
            #"{"collections": {"Scrap": [{"note": "s"}], "File": [{"path": "a", "size": 1}, {"path": "b"}], "Link": [{"host": "h", "port": 5}]}}"#
        )
        #expect(made.type == "completed")
        func job(_ fields: String) throws -> String {
            let answer = try session.client.ask("{\(fields), \"reply\": \"keys\"}")
            return answer.type == "completed"
                ? (answer["keys.File.updated"] ?? "") : "\(answer.code) \(answer["error.path"] ?? "")"
        }
        #expect(try job(#""entity": "File", "object": "a", "json": {"size": 7}"#) == #"["a"]"#)
        #expect(try job(#""entity": "File", "object": "a", "json": {"path": "z"}"#) == #"["z"]"#)
        #expect(try job(#""entity": "File", "object": "a", "json": {"size": 9}"#) == "objectNotFound /object")
        #expect(try job(#""entity": "File", "object": "z", "json": {"path": "b"}"#) == "constraintViolation /object")
        #expect(try job(#""entity": "File", "object": 2, "json": {"size": 9}"#) == "objectNotFound /object")
        #expect(try job(#""entity": "Script", "object": "z", "json": {"language": "sh"}"#) == "")
        #expect(
            try session.rows("SELECT path, size, language, _entity FROM Item WHERE path = 'z'") == [
                "z|7|sh|Script"
            ])
        let link = #"{"host": "h", "port": 5}"#
        #expect(
            try job(#""op": "relate", "entity": "Link", "object": \#(link), "relationship": "target", "json": "b""#)
                == "[]")
        #expect(try session.rows("SELECT path FROM Item JOIN Link ON Link.target = Item._pk") == ["b"])
        #expect(
            try job(#""op": "relate", "entity": "File", "object": "z", "relationship": "links", "json": [\#(link)]"#)
                == "")
        #expect(try session.rows("SELECT path FROM Item JOIN Link ON Link.target = Item._pk") == ["z"])
        #expect(
            try job(#""op": "relate", "entity": "File", "object": "q", "relationship": "links", "json": []"#)
                == "objectNotFound /object")
        // An object of the topmost entity is named by the row key.
        #expect(try job(#""entity": "Item", "object": 1, "json": {"note": "t"}"#) == "")
        #expect(try session.rows("SELECT note FROM Item WHERE _pk = 1") == ["t"])
        let fetched = try session.client.ask(#"{"type": "fetch", "entity": "File", "object": "b", "names": "local"}"#)
        #expect(fetched["objects.0.path"] == "b", "\(fetched.text)")
        let keyed = try session.client.ask(
            #"{"type": "fetch", "entity": "File", "result": "dictionary", "names": "local"}"#)
        #expect(keyed["objects.b.path"] == "b" && keyed["objects.z.path"] == "z", "\(keyed.text)")
    }

    // MARK: - Relationships and rules of subentities

    private static let animalsModel = """
        {"entities": {
          "Animal": {"identity": "id", "attributes": {"id": "integer64"}, "relationships": {"home": {"entity": "House"}}},
          "Cat": {"parent": "Animal"},
          "Dog": {"parent": "Animal", "relationships": {"walker": {"entity": "Person", "inverse": "dogs"},
            "pups": {"entity": "Dog", "toMany": true, "deleteRule": "deny"}}},
          "Horse": {"parent": "Animal", "relationships": {"walker": {"entity": "House"}}},
          "House": {"identity": "id", "attributes": {"id": "integer64"}},
          "Person": {"identity": "id", "attributes": {"id": "integer64"},
            "relationships": {"dogs": {"entity": "Dog", "toMany": true, "inverse": "walker"}}}}}
        """

    @Test(.session(animalsModel)) func `relate refuses a relationship that the named entity does not have`() throws {
        _ = try session.client.ask(#"{"collections": {"Cat": [{"id": 1}], "Dog": [{"id": 2}], "Horse": [{"id": 3}]}}"#)
        func relate(_ entity: String, _ object: Int, _ name: String) throws -> String {
            let answer = try session.client.ask(
                #"{"op": "relate", "entity": "\#(entity)", "object": \#(object), "relationship": "\#(name)", "json": 8}"#
            )
            return "\(answer.type) \(answer.code) \(answer["error.path"] ?? "")"
        }
        for object in 1...3 {
            #expect(try relate("Animal", object, "walker") == "failed unknownRelationship /relationship")
            #expect(try relate("Cat", object, "walker") == "failed unknownRelationship /relationship")
        }
        #expect(try relate("Dog", 1, "walker") == "failed objectNotFound /object")
        #expect(try relate("Animal", 1, "home") == "completed  ")
        #expect(try relate("Horse", 3, "walker") == "completed  ")
        #expect(try relate("Dog", 2, "walker") == "completed  ")
        #expect(
            try session.rows("SELECT id, home, Dog_walker, Horse_walker FROM Animal ORDER BY id")
                == ["1|8|NULL|NULL", "2|NULL|8|NULL", "3|NULL|NULL|8"])
    }

    @Test(.session(animalsModel)) func `a deny of a subentity holds its objects back by any name of theirs`() throws {
        _ = try session.client.ask(#"{"entity": "Dog", "json": [{"id": 1, "pups": [{"id": 2}]}]}"#)
        for entity in ["Animal", "Dog"] {
            for which in [#""objects": [1]"#, #""where": "id == 1""#] {
                let refused = try session.client.ask(#"{"op": "delete", "entity": "\#(entity)", \#(which)}"#)
                #expect(refused.code == "constraintViolation", "\(entity) \(which)")
            }
            let synced = try session.client.ask(#"{"op": "sync", "entity": "\#(entity)", "json": [{"id": 2}]}"#)
            #expect(synced.code == "constraintViolation")
        }
        #expect(try session.rows("SELECT id FROM Animal ORDER BY id") == ["1", "2"])
        for entity in ["Animal", "Dog"] {
            let both = try session.client.ask(#"{"op": "delete", "entity": "\#(entity)", "objects": [1, 2]}"#)
            #expect(both["changes.Dog.deleted"] == "2", "\(entity): \(both.text)")
            _ = try session.client.ask(#"{"entity": "Dog", "json": [{"id": 1, "pups": [{"id": 2}]}]}"#)
        }
    }

    @Test func `a deleted object counts under the entity that it had before the job`() throws {
        _ = try session.counts(#"{"entity": "Person", "json": [{"id": 1}, {"id": 2}]}"#)
        let job = #"{"entity": "Manager", "json": [{"id": 1, "salary": 5}, {"id": 3, "salary": 1}]}"#
        let deleted = try session.client.ask(
            #"{"reply": "keys", "operations": [\#(job), {"op": "delete", "entity": "Person", "objects": [1, 3, 4, 4]}]}"#
        )
        #expect(deleted["keys.Person.deleted"] == "[1]", "\(deleted.text)")
        #expect(deleted["changes.Person.deleted"] == "1")
        #expect((deleted["changes.Manager.deleted"] ?? "0") == "0")
        #expect(deleted["warnings.0.count"] == "1", "an absent key counts once, however often it is named")
        let counted = try session.counts(
            #"{"operations": [{"entity": "Manager", "json": [{"id": 2, "salary": 5}]}, {"op": "delete", "entity": "Person", "objects": [2]}]}"#
        )
        #expect(counted == "Person -1")
    }
}
