import BrokerModel
import BrokerModelSources
import Foundation
import TestSupport
import Testing

/// Texts that are no model, and attacks.
@Suite(.timeLimit(.minutes(5))) struct XMLFaultTests {
    private func faults(_ text: String) -> [String] { faults(Array(text.utf8)) }

    private func faults(_ text: [UInt8]) -> [String] {
        do throws(ModelError) {
            return try CoreDataModel.read(contents: text, source: "contents").allFaults
        } catch {
            return error.faults.map { "\($0.place.line):\($0.place.column) \($0.message)" }
        }
    }

    @Test func `malformed XML is one fault, with its line and the reason`() {
        for (text, line, reason) in [
            ("", 1, "(there is no element)"), ("{}", 1, "(there is no element)"), ("<?", 1, "(there is no element)"),
            ("text", 1, "(there is no element)"), ("<model", 1, "(Couldn't find end of Start Tag model)"),
            ("<model>\n<entity name=\"A\">\n</model>", 3, "(Opening and ending tag mismatch: entity line 2 and model)"),
            ("<model>\n<entity name=\"A\"", 2, "(attributes construct error)"),
            ("<model>\n<entity name=A/></model>", 2, "(AttValue: \" or ' expected)"),
            ("<model>\n\n<entity name=\"A\" name=\"B\"/></model>", 3, "(Attribute name redefined)"),
            ("<model>\n<entity name=\"&what;\"/></model>", 2, "(Entity 'what' not defined; write & as &amp;"),
            ("<model>\n<entity name=\"R&D\"/></model>", 2, "; write & as &amp; and < as &lt;)"),
            ("<model>\n<entity name=\"a<b\"/></model>", 2, "(Unescaped '<' not allowed in attributes values)"),
            ("<model>\n<entity name=\"a\"syncable=\"YES\"/></model>", 2, "(attributes construct error)"),
            ("<model>\n<!ENTITY x SYSTEM \"http://localhost/\"></model>", 2, "an error in element content"),
            ("<?xml version='1.0' ><!DOCTYPE model [<!ENTITY a 'ha'>]> ?><model/>", 1, "'?>' expected"),
            ("<?xml?>\n<model/>", 1, "XML declaration"),
            ("<model><entity<?a?></model>", 1, "(error parsing attribute name;"),
            ("<model/><model/>", 1, "(Extra content at the end of the document)"),
            ("<m:model/>", 1, "(Namespace prefix m on model is not defined)"),
        ] {
            let found = faults(text)
            #expect(found.count == 1, "\(text)")
            #expect(found.first?.hasPrefix("\(line):") == true, "\(text): \(found)")
            #expect(found.first?.contains("the model is not well-formed XML") == true, "\(text): \(found)")
            #expect(found.first?.contains(reason) == true, "\(text): \(found)")
        }
    }

    @Test func `a document type declaration is refused before anything in it is read`() {
        let laughs = """
            <?xml version="1.0"?>
            <!-- a comment with <!DOCTYPE in it -->
            <!DOCTYPE model [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>
            <model><entity name="&b;"/></model>
            """
        let external = "<!DOCTYPE model SYSTEM \"file:///etc/passwd\">\n<model/>"
        let parameter = "<?xml version='1.0'?>\n\n <!DOCTYPE m [<!ENTITY % p SYSTEM 'file:///p'> %p;]><m/>"
        let late = "<model/>\n<!DOCTYPE model>"
        for (text, place) in [(laughs, "3:1"), (external, "1:1"), (parameter, "3:2")] {
            let found = faults(text)
            #expect(found.count == 1)
            #expect(found.first?.hasPrefix("\(place) a document type declaration is refused") == true, "\(found)")
        }
        #expect(faults(late).first?.hasPrefix("2:1 the model is not well-formed XML") == true, "\(faults(late))")
    }

    @Test func `a text like a declaration in a comment, a string or CDATA is no declaration`() {
        let found = faults(
            """
            <model><!-- <!DOCTYPE a> --><?x <!DOCTYPE b> ?><![CDATA[<!DOCTYPE c>]]>
            <entity name="A"><attribute name="id" attributeType="String" defaultValueString="&lt;!DOCTYPE > d"/></entity>
            </model>
            """)
        #expect(found == [])
    }

    @Test func `comments and processing instructions mean nothing, with or without content`() {
        let others = "<?a?><?a b?><?a ?><!-- <? ?> ? <?c?> > --><!---->"
        #expect(faults("<?xml version=\"1.0\"?>\(others)<model>\(others)<entity name=\"A\"/></model>\(others)") == [])
    }

    @Test func `an attribute may be long, and an element has few attributes`() {
        func model(_ attributes: String) -> String { "<model>\n <entity name=\"A\" \(attributes)/></model>" }
        #expect(faults(model("x='\(String(repeating: "=", count: 8 << 20))'")) == [])
        let huge = faults(model("x='\(String(repeating: "x", count: 12 << 20))'"))
        #expect(huge.count == 1 && huge.first?.contains("not well-formed XML (") == true, "\(huge)")
        let few = (0..<2_000).map { "a\($0)=''" }.joined(separator: " ")
        #expect(faults(model(few)) == [])
        let many = (0..<100_000).map { "a\($0)=''" }.joined(separator: " ")
        #expect(faults(model(many)) == ["2:2 an element has more than 2048 attributes"])
        #expect(faults(model("a=''/>" + String(repeating: "<b a='' b=''/>", count: 5_000) + "<c")) == [])
    }

    @Test func `a character reference is that character`() throws {
        let text =
            "<model><entity name='A'><attribute name='id' attributeType='String'/>"
            + "<attribute name='x' attributeType='String' defaultValueString='R&amp;D &#38;lt; &lt;&gt;&quot;&apos;&#233;'><userInfo>"
            + "<entry key='useDefaultValueWhenNotPresent' value='YES'/></userInfo></attribute></entity></model>"
        let document = try CoreDataModel.read(contents: Array(text.utf8), source: "contents")
        let attribute = document.root["entities"]?["A"]?["attributes"]?["x"]
        #expect(attribute?["default"]?.string == "R&D &lt; <>\"'é", "\(document.root)")
    }

    @Test func `other encodings are refused, in which a declaration could hide`() {
        let utf16 = Array("<!DOCTYPE model><model/>".utf16.flatMap { [UInt8($0 & 0xFF), UInt8($0 >> 8)] })
        #expect(faults([0xFF, 0xFE] + utf16) == ["1:1 the model is not UTF-8, as Xcode writes it; save it as UTF-8"])
        #expect(faults(utf16) == ["1:1 the model is not UTF-8, as Xcode writes it; save it as UTF-8"])
        for encoding in ["UTF-7", "utf-16", "EBCDIC", "iso-8859-1"] {
            let found = faults("<?xml version=\"1.0\" encoding='\(encoding)'?><model/>")
            #expect(found.first?.contains("its encoding is \"\(encoding.lowercased())\"") == true, "\(found)")
        }
    }

    @Test func `depth is bounded, and breadth costs linear time`() {
        let deep = String(repeating: "<entity>", count: 100_000)
        #expect(faults(deep).first?.contains("nested more than 64 deep") == true)
        let wide = (0..<3_000).map {
            "<entity name=\"E\($0)\"><attribute name=\"id\" attributeType=\"String\"/></entity>"
        }
        #expect(faults("<model>\(wide.joined(separator: "\n"))</model>") == [])
    }

    @Test func `the position is that of the element's beginning, however it is laid out`() throws {
        let text = """
            <model><!-- < --><entity
              name="A"
              syncable="YES"
            ><attribute name="id"
              attributeType="String"/> <attribute
               name="x" attributeType="Strin" defaultValueString='>"<'
            /></entity></model>
            """.replacing("'>\"<'", with: "'>\"'")
        let document = try CoreDataModel.read(contents: Array(text.utf8), source: "contents")
        #expect(document.root["entities"]?["A"]?.place == SourcePlace(source: "contents", line: 1, column: 18))
        #expect(document.faults.map { "\($0.place.line):\($0.place.column)" } == ["5:28"])
        #expect(document.allFaults == ["5: \"Strin\" is no attribute type of Core Data's; did you mean \"String\"?"])
    }

    @Test func `each fault of a model is reported in a sentence of its own`() throws {
        let good = "<attribute name=\"id\" attributeType=\"String\"/>"
        func entity(_ name: String, _ inside: String = "") -> String {
            "<entity name=\"\(name)\">\(good)\(inside)</entity>"
        }
        func link(_ rest: String) -> String { "<relationship name=\"r\" optional=\"YES\" maxCount=\"1\" \(rest)/>" }
        for (elements, fault) in [
            ("", "the model has no entity; add one in Xcode"),
            ("<entity/>", "an entity needs a name; give it one in Xcode"),
            (entity("A", "<attribute attributeType=\"String\"/>"), "an attribute needs a name; give it one in Xcode"),
            (entity("A", "<relationship/>"), "a relationship needs a name; give it one in Xcode"),
            (entity("A", link("")), "the relationship has no destination; choose its entity in Xcode"),
            (
                entity("Apple", link("destinationEntity=\"Aple\"")),
                "the model has no entity \"Aple\"; did you mean \"Apple\"?"
            ),
            (
                entity("A", link("destinationEntity=\"A\" deletionRule=\"Destroy\"")),
                "\"Destroy\" is no delete rule; Core Data has Nullify, Cascade, Deny and No Action"
            ),
            (
                entity("A", link("destinationEntity=\"B\" inverseName=\"s\" inverseEntity=\"C\"")) + entity("B")
                    + entity("C"),
                "the inverse \"s\" is one of C, and the relationship leads to B; choose an inverse of B in Xcode"
            ),
            (
                entity("A", link("destinationEntity=\"B\" inverseName=\"s\" inverseEntity=\"B\"")) + entity("B"),
                "B has no relationship \"s\""
            ),
            (entity("A") + "\n" + entity("A"), "\"A\" occurs twice here, first on line 3; keep one of them"),
            (entity("A", good), "\"id\" occurs twice here, first on line 3; keep one of them"),
        ] {
            let found = faults(contents(elements))
            #expect(found.count == 1, "\(elements): \(found)")
            #expect(found.first?.hasSuffix(fault) == true, "\(elements): \(found)")
        }
        #expect(faults("<plist/>").first?.contains("its outermost element is <plist>, not <model>") == true)
    }

    @Test func `a hundred faults are all reported, in the order of the file`() throws {
        let attributes = (0..<100).map { number in
            number.isMultiple(of: 2)
                ? "<attribute name=\"a\(number)\" attributeType=\"Strong\"/>"
                : "<attribute name=\"a\(number)\" attributeType=\"Integer 16\" maxValueString=\"many\" defaultValueString=\"1\" />"
        }
        let relationships = (0..<50).map { "<relationship name=\"r\($0)\" optional=\"YES\" destinationEntity=\"X\"/>" }
        let document = try documentOfA((attributes + relationships).joined(separator: "\n"))
        let error = try #require(throws: ModelError.self) { try ModelReader.read(document) }
        #expect(error.faults.map(\.place.line) == Array(stride(from: 4, to: 104, by: 2)) + Array(104..<154))
        #expect(error.faults.allSatisfy { $0.place.column == 1 && $0.place.source == "contents" })
    }
}

/// Finding the XML: versions, and everything that may be there in its place.
@Suite(.timeLimit(.minutes(5))) struct ModelFolderTests {
    private let folder: TemporaryFolder

    init() { folder = TemporaryFolder() }

    /// Writes the versions of `A.xcdatamodeld`, each with an entity of its own name.
    private func versions(_ names: String..., current: String? = nil) throws -> String {
        for name in names {
            try write(
                contents("<entity name=\"\(name)\"><attribute name=\"id\" attributeType=\"String\"/></entity>"),
                to: "A.xcdatamodeld/\(name).xcdatamodel/contents")
        }
        if let current {
            let plist = """
                <?xml version="1.0" encoding="UTF-8"?>
                <!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
                <plist version="1.0"><dict><key>_XCCurrentVersionName</key><string>\(current)</string></dict></plist>
                """
            try write(plist, to: "A.xcdatamodeld/.xccurrentversion")
        }
        return folder.path("A.xcdatamodeld")
    }

    private func write(_ text: String, to path: String) throws {
        let url = URL(fileURLWithPath: folder.path(path))
        try FileManager.default.createDirectory(at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
        try Data(text.utf8).write(to: url)
    }

    /// The message, and the place as the end of its path.
    private func fault(_ path: String) throws -> (message: String, source: String) {
        let error = try #require(throws: ModelError.self) { try CoreDataModel.read(path) }
        try #require(error.faults.count == 1)
        return (error.faults[0].message, error.faults[0].place.source)
    }

    @Test func `the current version counts, with or without a slash after the name`() throws {
        let path = try versions("One", "Two", "Three", current: "Two.xcdatamodel")
        for path in [path, path + "/"] {
            let document = try CoreDataModel.read(path)
            #expect(document.root["entities"]?.members.map(\.key) == ["Two"])
            #expect(document.sources == [folder.path("A.xcdatamodeld/Two.xcdatamodel/contents")])
        }
    }

    @Test func `a single version needs no .xccurrentversion, and a version can be named itself`() throws {
        let path = try versions("One")
        #expect(try CoreDataModel.read(path).root["entities"]?.members.map(\.key) == ["One"])
        #expect(try CoreDataModel.read(path + "/One.xcdatamodel").root["entities"]?.members.map(\.key) == ["One"])
    }

    @Test func `several versions without a current one are reported, with their names`() throws {
        let path = try versions("One", "Two")
        #expect(
            try fault(path).message
                == "there are 2 versions (One.xcdatamodel, Two.xcdatamodel) and no .xccurrentversion that says which is "
                + "current; name one of them: \(path)/One.xcdatamodel")
    }

    @Test func `a missing current version is reported, also one outside of the folder`() throws {
        for name in ["Three.xcdatamodel", "../B.xcdatamodel", "/etc/passwd"] {
            let path = try versions("One", "Two", current: name)
            #expect(
                try fault(path).message
                    == "the current version is to be \"\(name)\", and there is none; there are One.xcdatamodel, "
                    + "Two.xcdatamodel: set the current version in Xcode, or name one of them")
        }
    }

    @Test func `an empty .xccurrentversion is reported`() throws {
        let path = try versions("One", "Two")
        for (text, message) in [
            ("nonsense <", "this is no property list"), ("", "this is no property list"),
            ("{ a = b; }", "the property list has no _XCCurrentVersionName"),
        ] {
            try write(text, to: "A.xcdatamodeld/.xccurrentversion")
            let fault = try fault(path)
            #expect(fault.message.hasPrefix(message), "\(text): \(fault.message)")
            #expect(fault.source.hasSuffix("/.xccurrentversion"))
        }
    }

    @Test func `other files are reported`() throws {
        try write("x", to: "File.xcdatamodeld")
        try write("x", to: "Old.xcdatamodel/elements")
        try write("x", to: "Old.xcdatamodel/layout")
        try write("x", to: "Empty.xcdatamodel/other")
        try write("x", to: "None.xcdatamodeld/other")
        try write("x", to: "Odd.xcdatamodel/contents/x")
        try write("bplist00…", to: "Binary.xcdatamodel/contents")
        try write("x", to: "Compiled.momd/A.mom")
        for (name, message) in [
            ("Missing.xcdatamodeld", "there is no such model"),
            ("File.xcdatamodeld", "this is a file, and a Core Data"),
            ("Old.xcdatamodel", "the model is in the old binary format of Xcode 3"),
            ("Empty.xcdatamodel", "the model has no contents"), ("Odd.xcdatamodel", "the model has no contents"),
            ("None.xcdatamodeld", "there is no version (.xcdatamodel) in this folder"),
            ("Binary.xcdatamodel", "the model is in a binary format that Xcode no longer writes"),
            ("Compiled.momd", "this is a compiled model"), ("Compiled.momd/A.mom", "this is a compiled model"),
        ] {
            let fault = try fault(folder.path(name))
            #expect(fault.message.hasPrefix(message), "\(name): \(fault.message)")
            #expect(fault.source.contains(name))
        }
    }
}
