import BrokerModelSources
import BrokerModel
import Testing

@Suite(.timeLimit(.minutes(5))) struct RelationshipConversionTests {
    private func relationship(_ rest: String) throws -> String? {
        try documentOfA("<relationship name=\"r\" optional=\"YES\" destinationEntity=\"A\" \(rest)/>").relationship("r")
    }

    @Test func `the cardinality is read in old spellings and new ones`() throws {
        for one in ["maxCount=\"1\"", "minCount=\"1\" maxCount=\"1\"", "toMany=\"NO\"", ""] {
            #expect(try relationship(one) == #"{"entity":"A"}"#, "\(one)")
        }
        for many in ["toMany=\"YES\"", "maxCount=\"0\"", "maxCount=\"5\"", "toMany=\"YES\" minCount=\"1\""] {
            #expect(try relationship(many) == #"{"entity":"A","toMany":true}"#, "\(many)")
        }
    }

    @Test func `delete rules, order and renaming are taken`() throws {
        for (rule, taken) in [
            ("Nullify", ""), ("Cascade", #","deleteRule":"cascade""#), ("Deny", #","deleteRule":"deny""#),
            ("No Action", #","deleteRule":"noAction""#),
        ] {
            #expect(try relationship("maxCount=\"1\" deletionRule=\"\(rule)\"") == "{\"entity\":\"A\"\(taken)}")
        }
        #expect(
            try relationship("toMany=\"YES\" ordered=\"YES\" elementID=\"old\"")
                == #"{"entity":"A","toMany":true,"ordered":true,"renamedFrom":"old"}"#)
        #expect(try relationship("maxCount=\"1\" ordered=\"YES\" elementID=\"r\"") == #"{"entity":"A"}"#)
    }

    @Test func `a skipped inverse is not named, one of an ancestor is`() throws {
        let document = try document(
            """
            <entity name="A">
                <relationship name="b" optional="YES" maxCount="1" destinationEntity="B" inverseName="a" inverseEntity="B"/>
                <relationship name="c" optional="YES" maxCount="1" destinationEntity="C" inverseName="d" inverseEntity="B"/>
            </entity>
            <entity name="B">
                <relationship name="a" transient="YES" toMany="YES" destinationEntity="A" inverseName="b" inverseEntity="A"/>
                <relationship name="d" optional="YES" toMany="YES" destinationEntity="A" inverseName="c" inverseEntity="A"/>
            </entity>
            <entity name="C" parentEntity="B"/>
            """)
        #expect(document.relationship("b") == #"{"entity":"B"}"#)
        #expect(document.relationship("c") == #"{"entity":"C","inverse":"d"}"#)
        #expect(document.relationship("a", of: "B") == nil)
        #expect(document.notes("/entities/A/relationships/b") == ["skipped: the inverse a: it is skipped itself"])
        #expect(
            document.notes("/entities/B/relationships/a")
                == ["skipped: the relationship is transient: Core Data does not store it either"])
        #expect(document.faults.isEmpty)
    }

    @Test func `a rule that is not enforced is reported`() throws {
        let document = try documentOfA(
            "<relationship name=\"r\" toMany=\"YES\" minCount=\"1\" maxCount=\"4\" destinationEntity=\"A\"/>")
        #expect(
            document.notes("/entities/A/relationships/r") == [
                "ignored: no inverse: the other side does not know of the link",
                "skipped: the relationship is not optional: that is not enforced, so that records may come in any order",
                "skipped: minCount=\"1\": how many there are is not enforced",
                "skipped: maxCount=\"4\": how many there are is not enforced",
            ])
    }
}
