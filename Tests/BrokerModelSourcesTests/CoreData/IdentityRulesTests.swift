import BrokerModel
import BrokerModelSources
import Testing

@Suite(.timeLimit(.minutes(5))) struct IdentityRulesTests {
    private func identity(_ inside: String, _ entries: [String: String] = [:]) throws -> String? {
        try documentOfA(inside + userInfo(entries)).json("entities", "A", "identity")
    }

    private func userInfo(_ entries: [String: String]) -> String {
        let lines = entries.sorted { $0.key < $1.key }.map { "<entry key=\"\($0.key)\" value=\"\($0.value)\"/>" }
        return "<userInfo>\(lines.joined())</userInfo>"
    }

    private func attributes(_ names: String...) -> String {
        names.map { "<attribute name=\"\($0)\" optional=\"YES\" attributeType=\"String\"/>" }.joined(separator: "\n")
    }

    private let constraint = """
        <uniquenessConstraints><uniquenessConstraint><constraint value="c"/><constraint value="d"/></uniquenessConstraint>
        </uniquenessConstraints>
        """

    @Test func `each source of an identity precedes the later ones`() throws {
        var inside = attributes("a", "b", "c", "d", "id", "aID", "aId", "remoteID")
        var entries = [
            "identityAttributes": "b, a", "identityAttribute": "a", "relatedByAttribute": "b",
            "RKEntityIdentificationAttributes": "c,a",
        ]
        inside += constraint
        #expect(try identity(inside, entries) == #"["b","a"]"#)
        entries["identityAttributes"] = nil
        #expect(try identity(inside, entries) == #"["a"]"#)
        entries["identityAttribute"] = nil
        #expect(try identity(inside, entries) == #"["b"]"#)
        entries["relatedByAttribute"] = nil
        #expect(try identity(inside, entries) == #"["c","a"]"#)
        let marked = "<attribute name=\"k\" attributeType=\"String\">" + userInfo(["sync.isPrimaryKey": "YES"])
        #expect(try identity(inside + marked + "</attribute>", entries) == #"["k"]"#)
        let hyper = "<attribute name=\"h\" attributeType=\"String\">" + userInfo(["hyper.isPrimaryKey": "true"])
        #expect(try identity(inside + hyper + "</attribute>", entries) == #"["h"]"#)
        #expect(try identity(inside) == #"["c","d"]"#)
        for (names, expected) in [
            (["id", "aId", "aID", "remoteID"], "remoteID"), (["id", "aId", "aID"], "aID"), (["id", "aId"], "aId"),
            (["id"], "id"),
        ] {
            #expect(try identity(names.map { attributes($0) }.joined()) == "[\"\(expected)\"]")
        }
        #expect(try identity(attributes("x")) == nil)
    }

    @Test func `a name that is no attribute gives a note and is ignored`() throws {
        let document = try documentOfA(
            attributes("name", "id") + "<attribute name=\"t\" transient=\"YES\" attributeType=\"String\"/>"
                + userInfo(["identityAttributes": "nmae", "relatedByAttribute": "t"]))
        #expect(document.json("entities", "A", "identity") == #"["id"]"#)
        #expect(
            document.notes("/entities/A") == [
                "ignored: userInfo identityAttributes: nmae: there is no attribute nmae to find objects by; "
                    + "did you mean \"name\"?",
                "ignored: userInfo relatedByAttribute: t: there is no attribute t to find objects by",
                "inferred: the identity is id: the usual name",
            ])
    }

    @Test func `a relationship determines the attribute by which its destinations are found`() throws {
        let document = try document(
            """
            <entity name="A">
                <attribute name="code" attributeType="String"/><attribute name="id" attributeType="Integer 64"/>
            </entity>
            <entity name="B"><attribute name="id" attributeType="Integer 64"/>
                <relationship name="a" optional="YES" maxCount="1" destinationEntity="A">
                    <userInfo><entry key="relatedByAttribute" value="code"/></userInfo>
                </relationship>
            </entity>
            """)
        #expect(document.json("entities", "A", "identity") == #"["code"]"#)
        #expect(document.json("entities", "B", "identity") == #"["id"]"#)
    }

    @Test func `the identity has no default and is required`() throws {
        let document = try documentOfA(
            "<attribute name=\"id\" optional=\"YES\" attributeType=\"Integer 64\" defaultValueString=\"0\"/>")
        #expect(document.attribute("id") == #"{"type":"integer64"}"#)
        #expect(
            document.notes("/entities/A/attributes/id") == [
                "inferred: required, though the model says optional: it is of the identity",
                "ignored: the default \"0\": all records without an identity would be one object",
            ])
        #expect(try ModelReader.read(document).entities[0].identity == [0])
    }

    @Test func `in a hierarchy the topmost identity is that of all`() throws {
        let document = try document(
            """
            <entity name="Dog" parentEntity="Animal"><attribute name="dogID" attributeType="Integer 64"/>
                <userInfo><entry key="identityAttributes" value="dogID"/></userInfo></entity>
            <entity name="Puppy" parentEntity="Dog"><attribute name="id" attributeType="Integer 64"/></entity>
            <entity name="Animal" isAbstract="YES"><attribute name="animalID" attributeType="Integer 64"/></entity>
            <entity name="Stone"><attribute name="weight" attributeType="Double"/></entity>
            <entity name="Gem" parentEntity="Stone"><attribute name="gemId" attributeType="String"/></entity>
            """)
        #expect(document.json("entities", "Animal", "identity") == #"["animalID"]"#)
        #expect(document.json("entities", "Dog", "identity") == nil)
        #expect(document.json("entities", "Puppy", "identity") == nil)
        #expect(document.json("entities", "Gem", "identity") == #"["gemId"]"#)
        #expect(document.json("entities", "Dog", "parent") == "\"Animal\"")
        #expect(document.json("entities", "Animal", "abstract") == "true")
        #expect(
            document.notes("/entities/Dog") == [
                "ignored: userInfo identityAttributes: dogID: a hierarchy has one identity, its topmost entity's",
                "inferred: the identity is that of Animal, whose subentity this is",
            ])
    }

    @Test func `parents that go around in a circle end`() throws {
        let document = try document(
            """
            <entity name="A" parentEntity="B"><attribute name="id" attributeType="String"/></entity>
            <entity name="B" parentEntity="A"/><entity name="C" parentEntity="C"/>
            """)
        #expect(document.json("entities", "C", "parent") == "\"C\"")
        #expect(document.faults.isEmpty)
    }

    @Test func `a line of parents that never ends is bounded`() throws {
        let entities = (0..<20_000).map { "<entity name=\"E\($0)\" parentEntity=\"E\($0 + 1)\"/>" }
        let document = try document(entities.joined(separator: "\n"))
        #expect(document.faults.count == 20_000 - 65)
        #expect(document.faults[0].message == "the entity has more than 64 ancestors; no model needs them")
    }

    @Test func `other uniqueness constraints and indexes become lists, impossible ones are reported`() throws {
        let document = try documentOfA(
            attributes("id", "a", "b") + """
                <relationship name="r" optional="YES" maxCount="1" destinationEntity="A"/>
                <uniquenessConstraints>
                    <uniquenessConstraint><constraint value="r"/></uniquenessConstraint>
                    <uniquenessConstraint><constraint value="id"/></uniquenessConstraint>
                    <uniquenessConstraint><constraint value="a"/><constraint value="b"/></uniquenessConstraint>
                </uniquenessConstraints>
                <fetchIndex name="byB"><fetchIndexElement property="b" type="Binary" order="ascending"/></fetchIndex>
                <fetchIndex name="byR"><fetchIndexElement property="r" type="Binary" order="ascending"/></fetchIndex>
                <fetchIndex name="tree"><fetchIndexElement property="b" type="RTree" order="ascending"/></fetchIndex>
                <fetchIndex name="upper"><fetchIndexElement expression="uppercase(b)" type="Binary"/></fetchIndex>
                <compoundIndexes><compoundIndex><index value="b"/><index value="a"/></compoundIndex></compoundIndexes>
                """)
        #expect(document.json("entities", "A", "identity") == #"["id"]"#)
        #expect(document.json("entities", "A", "unique") == #"[["a","b"]]"#)
        #expect(document.json("entities", "A", "indexes") == #"[["b"],["b","a"]]"#)
        #expect(
            document.notes("/entities/A").filter { !$0.hasPrefix("inferred") } == [
                "skipped: the uniqueness constraint over r: r is no attribute that is stored",
                "ignored: the index byR: a relationship has an index anyway",
                "skipped: the index tree: Broker makes no R-trees",
                "skipped: the index upper: Broker indexes attributes, not expressions",
            ])
        #expect(document.allFaults == [])
    }
}

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
            attribute("plain") + attribute("mapped", ("mappedKeyName", "location.latitude"))
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
