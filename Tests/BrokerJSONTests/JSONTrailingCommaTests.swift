import BrokerJSON
import Testing

@Suite struct JSONTrailingCommaTests {
    private func blanked(_ json: String) -> String? {
        text(json.utf8).blankingTrailingCommas().map { String(decoding: $0.bytes, as: UTF8.self) }
    }

    @Test func `a comma right before a closing bracket becomes a space`() {
        #expect(blanked(#"{"a": [1, 2 , ], "b": {"c": 1,},}"#) == #"{"a": [1, 2   ], "b": {"c": 1 } }"#)
        #expect(blanked("[1,\r\n\t]") == "[1 \r\n\t]")
    }

    @Test func `commas and brackets inside of strings are left alone`() {
        #expect(blanked(#"["a,]", "b\",}", "\\", 1]"#) == nil)
        #expect(blanked(#"[",]",]"#) == #"[",]" ]"#)
        #expect(blanked(#"["\\",]"#) == #"["\\" ]"#)
    }

    @Test func `nothing is copied when there is no such comma`() {
        #expect(blanked("[1, 2]") == nil)
        #expect(blanked("") == nil)
    }

    @Test(arguments: ["[,]", "[1,,]", "{,}", "{\"a\":,}"])
    func `what was wrong without the comma stays wrong, or was no list`(json: String) throws {
        let mended = try #require(blanked(json))
        #expect(mended.utf8.count == json.utf8.count)
        let isEmpty = mended == "[ ]" || mended == "{ }"
        #expect((refusal(of: mended.utf8) == nil) == isEmpty)
    }
}
