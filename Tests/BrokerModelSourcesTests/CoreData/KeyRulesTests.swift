import BrokerModelSources
import BrokerModel
import Testing

/// The user info of the libraries of the field.
@Suite(.timeLimit(.minutes(5))) struct KeyRulesTests {
    private func attribute(_ name: String, _ entries: (String, String)..., type: String = "String") -> String {
        let lines = entries.map { "<entry key=\"\($0.0)\" value=\"\($0.1)\"/>" }.joined()
        return """
            <attribute name="\(name)" optional="YES" attributeType="\(type)"><userInfo>\(lines)</userInfo></attribute>
            """
    }

    private func relationship(_ name: String, isToMany: Bool, _ entries: (String, String)...) -> String {
        let lines = entries.map { "<entry key=\"\($0.0)\" value=\"\($0.1)\"/>" }.joined()
        let count = isToMany ? "toMany=\"YES\"" : "maxCount=\"1\""
        return """
            <relationship name="\(name)" optional="YES" \(count) destinationEntity="A"><userInfo>\(lines)</userInfo>\
            </relationship>
            """
    }

    private func key(_ document: ModelDocument, _ name: String, _ part: String = "attributes") -> String? {
        document.json("entities", "A", part, name, "key")
    }

    @Test func `MagicalRecord's keys have fallbacks, of attributes and relationships`() throws {
        let document = try documentOfA(
            attribute("plain")
                + attribute("mapped", ("mappedKeyName", "location.latitude"))
                + attribute(
                    "several", ("mappedKeyName.2", "c"), ("mappedKeyName", "a"), ("mappedKeyName.1", "b"),
                    ("mappedKeyName.9", "d"))
                + attribute("fallback", ("mappedKeyName.1", "other"))
                + attribute(
                    "date", ("dateFormat", "yyyy-MM-dd"), ("useDefaultValueWhenNotPresent", "YES"), type: "Date")
                + attribute("misspelt", ("mapedKeyName", "x"))
                + relationship("friends", isToMany: true, ("mappedKeyName", "friend_list"), ("mappedKeyName.1", "pals"))
        )
        #expect(key(document, "plain") == nil)
        #expect(key(document, "mapped") == #"["location.latitude"]"#)
        #expect(key(document, "several") == #"["a","b","c","d"]"#)
        #expect(key(document, "fallback") == #"["fallback","other"]"#)
        #expect(document.json("entities", "A", "attributes", "date", "format") == "\"yyyy-MM-dd\"")
        #expect(key(document, "friends", "relationships") == #"["friend_list","pals"]"#)
        #expect(
            document.notes("/entities/A/attributes/misspelt") == [
                "ignored: userInfo mapedKeyName: Broker does not know this key; did you mean \"mappedKeyName\"?"
            ])
        #expect(
            document.notes("/entities/A/attributes/date").contains {
                $0 == "ignored: userInfo useDefaultValueWhenNotPresent: the attribute has no default"
            })
        #expect(document.allFaults == [])
        let reset = try documentOfA(
            """
            <attribute name="state" optional="YES" attributeType="String" defaultValueString="new">
                <userInfo><entry key="useDefaultValueWhenNotPresent" value="YES"/></userInfo>
            </attribute>
            """)
        #expect(reset.json("entities", "A", "attributes", "state", "defaultWhenMissing") == "true")
    }

    @Test func `with Groot, a property without a key path is not mapped, in the whole hierarchy`() throws {
        let document = try document(
            """
            <entity name="A">
                \(attribute("id", ("JSONKeyPath", "identifier")))\(attribute("note"))
                \(attribute("shout", ("JSONKeyPath", "name"), ("JSONTransformerName", "Upper")))
                \(relationship("others", isToMany: true))
                <userInfo><entry key="identityAttributes" value="id"/><entry key="entityMapperName" value="M"/></userInfo>
            </entity>
            <entity name="Sub" parentEntity="A">\(attribute("more"))</entity>
            <entity name="Free">\(attribute("x"))</entity>
            """)
        #expect(key(document, "id") == #"["identifier"]"#)
        #expect(key(document, "note") == "[]")
        #expect(key(document, "others", "relationships") == "[]")
        #expect(document.json("entities", "Sub", "attributes", "more", "key") == "[]")
        #expect(document.json("entities", "Free", "attributes", "x", "key") == nil)
        #expect(
            document.notes("/entities/A/attributes/shout").contains {
                $0.hasPrefix("skipped: userInfo JSONTransformerName: ")
            })
        #expect(document.notes("/entities/A").contains { $0.hasPrefix("skipped: userInfo entityMapperName: ") })
    }

    @Test func `Sync's names hold in a model that bears one of its keys, and in no other`() throws {
        let inside =
            attribute("remoteID") + attribute("createdAt") + attribute("aType") + attribute("name")
            + relationship("bestFriend", isToMany: false) + relationship("notes", isToMany: true)
        let plain = try documentOfA(inside)
        #expect(key(plain, "createdAt") == nil)
        for marker in ["sync.remoteKey", "hyper.remoteKey"] {
            let document = try documentOfA(inside + attribute("company", (marker, "company.name")))
            #expect(key(document, "remoteID") == #"["id"]"#)
            #expect(key(document, "createdAt") == #"["created_at","createdAt"]"#)
            #expect(key(document, "aType") == #"["type","a_type","aType"]"#)
            #expect(key(document, "name") == #"["name"]"#)
            #expect(key(document, "company") == #"["company.name"]"#)
            #expect(key(document, "bestFriend", "relationships") == #"["best_friend","bestFriend","best_friend_id"]"#)
            #expect(key(document, "notes", "relationships") == #"["notes","notes_ids"]"#)
            #expect(document.notes("").contains { $0.hasPrefix("inferred: the model has user info of Sync's") })
            #expect(document.allFaults == [])
        }
    }

    @Test func `the first of several libraries' keys counts, and the others are reported`() throws {
        let document = try documentOfA(
            attribute(
                "x", ("sync.remoteKey", "s"), ("mappedKeyName", "m"), ("JSONKeyPath", "j"), ("hyper.remoteKey", "j")))
        #expect(key(document, "x") == #"["j"]"#)
        #expect(
            document.notes("/entities/A/attributes/x") == [
                "taken: userInfo JSONKeyPath: j", "ignored: userInfo mappedKeyName: JSONKeyPath goes before it",
                "ignored: userInfo sync.remoteKey: JSONKeyPath goes before it",
            ])
    }

    @Test func `a wrong key path is a fault at its line`() throws {
        let document = try documentOfA("\n" + attribute("x", ("mappedKeyName", "a..b")))
        #expect(document.allFaults == ["5: the key path \"a..b\" has an empty key; take out the dot too many"])
    }
}
