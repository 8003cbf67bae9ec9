import BrokerModelSources
import BrokerModel
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
