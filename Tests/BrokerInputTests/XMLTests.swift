import Testing

@testable import BrokerInput

@Suite(.timeLimit(.minutes(5))) struct XMLTests {
    @Test(arguments: [
        ("<e><id>1</id><name>Ada</name></e>", #"{"id":"1","name":"Ada"}"#),
        ("<e id='1' a='&lt;&#233;'><n/></e>", #"{"@id":"1","@a":"<é","n":null}"#),
        ("<e a='&amp;&#38;amp;&quot;'>&amp;&#38;amp;</e>", ##"{"@a":"&&amp;\"","#text":"&&amp;"}"##),
        ("<e><n a='x'>Ada</n></e>", ##"{"n":{"@a":"x","#text":"Ada"}}"##),
        ("<e><t>1</t><u/><t>2</t><t a='b'/></e>", #"{"t":["1","2",{"@a":"b"}],"u":null}"#),
        ("<e>x <b>bold</b> y</e>", ##"{"b":"bold","#text":"x  y"}"##),
        ("<e>\n  <n>\n Ada \n</n>\n</e>", #"{"n":"Ada"}"#),
        ("<e><n><![CDATA[<b>&amp;]]></n></e>", #"{"n":"<b>&amp;"}"#),
        ("<e><n>a&amp;b&#x41;</n><!-- c --><?pi d?></e>", #"{"n":"a&bA"}"#),
        ("<e><n></n><m> </m><o a=''/></e>", #"{"n":null,"m":null,"o":{"@a":null}}"#),
        ("<e xmlns='u:x' xmlns:y='u:y'><y:n y:a='1'>2</y:n></e>", ##"{"y:n":{"@y:a":"1","#text":"2"}}"##),
        (
            "<e xmlns:xsi='u:x'><n xsi:nil='true'/><m xsi:nil='false'>1</m></e>",
            ##"{"n":null,"m":{"@xsi:nil":"false","#text":"1"}}"##
        ),
        ("<e>Ada</e>", #""Ada""#),
        ("<e><x:n>1</x:n></e>", #"{"x:n":"1"}"#),
        ("<a/>", "null"),
        (
            "\u{FEFF}<?xml version='1.0' encoding='UTF-8'?>\n<!DOCTYPE e>\n<e><n>é\u{301}</n></e>\n",
            "{\"n\":\"é\u{301}\"}"
        ),
    ])
    func `elements are keys, attributes have an at sign, and several of one name are an array`(
        text: String, json: String
    ) throws {
        let reading = try #require(Reading.always(.xml, text))
        #expect(reading.records == [json], "\(reading.faultText)")
        #expect(reading.fault == nil, "\(reading.faultText)")
    }

    private static let company = """
        <company>
          <department name="R&amp;D"><employee><id>1</id></employee>
            <employee><id>2</id></employee></department>
          <employee><id>3</id></employee>
          <department name="IT"><employee><id>4</id></employee></department>
        </company>
        """

    @Test(arguments: [
        ("company.employee", [3]), ("company.department.employee", [1, 2, 4]),
        ("/company/department/employee", [1, 2, 4]),
        ("/company/department/1/employee", [4]), ("/company/department/employee/0", [1, 4]),
        ("/company/department/0/employee/1", [2]),
    ])
    func `a root picks the elements at its path, in each parent that has them`(root: String, ids: [Int]) throws {
        let reading = try #require(Reading.always(.xml, Self.company, root: root))
        #expect(reading.records == ids.map { "{\"id\":\"\($0)\"}" }, "\(reading.faultText)")
    }

    @Test func `records have the lines of their tags, and an element inside another of its name is a part of it`()
        throws
    {
        let text = "<a>\n<b>\n<b>1</b></b>\n\n<b/></a>"
        let reading = try #require(Reading.always(.xml, text, root: "a.b"))
        #expect(reading.records == [#"{"b":"1"}"#, "null"] && reading.lines == [2, 5])
    }

    @Test(arguments: [
        ("company.person", #"there is no element "person" at "company"; there is "department", "employee""#),
        ("firm.employee", #"there is no element "firm"; there is "company""#),
        ("/company/department/7/employee", #"there is no element "department" number 7 at "company""#),
        ("company.employee.id.x", ""),
    ])
    func `a root that matches no element is reported with the existing ones`(root: String, message: String) {
        let reading = Reading(.xml, Self.company, root: root)
        #expect(
            reading.records.isEmpty && (message.isEmpty || reading.faultText.contains(message)), "\(reading.faultText)")
    }

    @Test func `a list of nothing holds no records, and that is no fault`() {
        let reading = Reading(.xml, "<employees/>", root: "employees.employee")
        #expect(reading.records.isEmpty && reading.fault == nil)
    }

    @Test(arguments: [
        "<!DOCTYPE r [<!ENTITY a \"ha\"><!ENTITY b \"&a;&a;\">]><r><e>&b;</e></r>",
        "<!DOCTYPE r [<!ENTITY a SYSTEM \"file:///etc/passwd\">]><r><e>&a;</e></r>",
        "<!DOCTYPE r [<!ENTITY % p SYSTEM \"file:///etc/passwd\"> %p;]><r><e>1</e></r>",
        "<?xml version='1.0'?><!-- > --><!DOCTYPE r [\n<!-- ]> -->\n<?x <r> ?><!ENTITY\na 'b'>]><r><e>&a;</e></r>",
        "<!DOCTYPE r [<!ELEMENT r ANY><!ATTLIST r a CDATA #IMPLIED><!NOTATION n PUBLIC 'p'><!ENTITY a 'b'>]><r><e/></r>",
    ])
    func `an entity that a document declares is refused, before it can do anything`(text: String) throws {
        let reading = Reading(.xml, text, root: "r.e")
        #expect(
            reading.records.isEmpty && reading.faultText.contains("the document declares an entity"),
            "\(reading.faultText)")
        for size in 1...9 {
            let reading = Reading(.xml, text, root: "r.e", pieces: size)
            #expect(reading.records.isEmpty && reading.fault != nil)
        }
    }

    @Test func `a document type without entities is read, and files that it names are not`() throws {
        let text = "<!DOCTYPE r SYSTEM \"file:///nowhere.dtd\" [<!ELEMENT r ANY>]><r><e>1</e><e>&nbsp;</e></r>"
        let reading = try #require(Reading.always(.xml, text, root: "r.e"))
        #expect(reading.records == ["\"1\""])
        #expect(
            reading.faultText.contains("Entity 'nbsp' not defined; write the character itself"), "\(reading.faultText)")
        let types = """
            <!DOCTYPE r [
              <!-- ]> ' -->
              <!ELEMENT r (e*)> <!ELEMENT e (#PCDATA)>
              <!ATTLIST e a CDATA #IMPLIED b (c|d) #REQUIRED>
              <?pi d?> <!NOTATION n PUBLIC "p">
            ]>
            <r><?pi?><e a="x>y">1</e></r>
            """
        // In the smallest pieces, libxml2 takes the bracket in the comment for the end.
        let typed = Reading(.xml, types, root: "r.e")
        #expect(typed.records == [##"{"@a":"x>y","#text":"1"}"##], "\(typed.faultText)")
        let cdata = try #require(Reading.always(.xml, "<r><e><![CDATA[<!ENTITY a 'b'>]]></e></r>", root: "r.e"))
        #expect(cdata.records == ["\"<!ENTITY a 'b'>\""])
    }

    @Test(arguments: [
        ("<r>\n<e>1</e>\n<e>2</f></r>", 1, "line 3, column "),
        ("<r>\n<e>1</e>\n<e>2</f></r>", 1, "Opening and ending tag mismatch: e line 3 and f"),
        ("<r><e>1</e><e>2", 1, "the document ends before its elements do: 2 are still open"),
        ("<r><e>1</e></r><r/>", 1, "Extra content at the end of the document"),
        ("<r><e>1</e><e>a & b</e></r>", 1, "& is written &amp;"),
        ("<r><e>&foo;</e></r>", 0, "Entity 'foo' not defined; write"),
        ("<r><e a=1/></r>", 0, "AttValue: \" or ' expected"),
        ("<r><e a='1' a='2'/></r>", 0, "Attribute a redefined"),
        ("<r><e>\u{0}</e></r>", 0, "line 1, column "),
        ("", 0, "there is no XML here"), ("<r>", 0, "no whole element of it"), (" \n \n \n", 0, "there is no XML here"),
        ("{\"id\": 1}", 0, "there is no XML here"),
    ])
    func `malformed XML is reported with its line, after the records before it`(
        text: String, count: Int, message: String
    ) throws {
        for size in [1, 3, 1000] {
            let reading = Reading(.xml, text, root: "r.e", pieces: size)
            #expect(reading.records.count == count, "\(reading.faultText)")
            #expect(reading.faultText.contains(message), "\(reading.faultText)")
        }
    }

    @Test func `other encodings are read where the document says them, and what is not of its own is refused`() throws {
        let latin = Array("<?xml version='1.0' encoding='ISO-8859-1'?><r>".utf8) + [0xE9] + Array("</r>".utf8)
        #expect(Reading(.xml, latin).records == ["\"é\""])
        let wide = "<?xml version='1.0'?><r>\n<e>é</e></r>".utf16.flatMap { [UInt8($0 & 0xFF), UInt8($0 >> 8)] }
        for size in [1, 5, 1000] {
            let reading = Reading(.xml, [0xFF, 0xFE] + wide, root: "r.e", pieces: size)
            #expect(reading.records == ["\"é\""], "\(reading.faultText)")
            #expect(reading.places == [InputPlace(line: 2, column: 1, offset: nil)])
        }
        let broken = Reading(.xml, Array("<r>x".utf8) + [0xFF, 0xFE] + Array("y</r>".utf8))
        #expect(broken.records.isEmpty && broken.faultText.contains("the text is no UTF-8 here"), "\(broken.faultText)")
        #expect(Reading(.xml, "<?xml version='1.0' encoding='x'?><r/>").faultText.contains("Unsupported encoding x"))
        // An entity declaration is recognised in every encoding.
        let hidden =
            "<?xml version='1.0' encoding='UTF-7'?>+ADwAIQ-DOCTYPE r +AFsAPAAh-ENTITY a 'b'+AD4AXQA+ADw-r/+AD4-"
        #expect(Reading(.xml, hidden).fault != nil)
    }

    @Test func `a document type may give namespaces to elements`() throws {
        let declarations =
            "<!ATTLIST r xmlns CDATA #FIXED 'urn:a' xmlns:x CDATA 'urn:b' id CDATA #IMPLIED><!ATTLIST e xmlns CDATA 'urn:c'>"
        let reading = try #require(
            Reading.always(.xml, "<!DOCTYPE r [\(declarations)]><r id='7'><e/><x:f>1</x:f></r>"))
        #expect(reading.records == [#"{"@id":"7","e":null,"x:f":"1"}"#] && reading.fault == nil, "\(reading.faultText)")
    }

    @Test func `a document type may give a few short attributes to elements`() throws {
        let declarations = "<!ATTLIST e a CDATA 'x' xlink:b CDATA #FIXED '50' c CDATA #REQUIRED d (y|n) 'n'>"
        let reading = try #require(
            Reading.always(.xml, "<!DOCTYPE r [\(declarations)]><r><e/><e c='1' a='2'/></r>", root: "r.e"))
        #expect(
            reading.records == [
                #"{"@a":"x","@xlink:b":"50","@d":"n"}"#, #"{"@c":"1","@a":"2","@xlink:b":"50","@d":"n"}"#,
            ], "\(reading.faultText)")
    }

    @Test(arguments: [
        ("<!ATTLIST r" + (1...17).map { " xmlns:n\($0) CDATA 'urn:\($0)'" }.joined() + ">", "xmlns:n17"),
        ("<!ATTLIST r" + (1...17).map { " n\($0) CDATA ''" }.joined() + ">", "n17"),
        ("<!ATTLIST r n CDATA '\(String(repeating: "x", count: 64))'>", "n"),
        ((1...257).map { "<!ATTLIST e\($0) n\($0) CDATA ''>" }.joined(), "n257"),
    ])
    func `many or long defaults are refused, because each element would have more than its text`(
        declarations: String, name: String
    ) throws {
        let reading = try #require(Reading.always(.xml, "<!DOCTYPE r [\(declarations)]><r/>"))
        #expect(
            reading.faultText.contains("declares a default for the attribute \"\(name)\""), "\(reading.faultText)")
    }

    @Test func `places are those of the tags, however long lines are`() throws {
        let text = "<r>" + (0..<20_000).map { "<e é='\($0)'\n a='é'/>" }.joined()
        let reading = Reading(.xml, text + "</r>", root: "r.e")
        #expect(reading.records.count == 20_000 && reading.fault == nil)
        let bytes = Array(text.utf8)
        for (index, place) in reading.places.enumerated() {
            let offset = try #require(place.offset)
            #expect(bytes[offset...].starts(with: "<e é='\(index)'".utf8))
            #expect(place.line == index + 1 && place.column == (index == 0 ? 4 : 10))
        }
    }

    @Test func `elements nested without end are refused, and so are elements too deep for a record`() {
        let deep = String(repeating: "<a>", count: 1_000_000)
        #expect(Reading(.xml, deep).faultText.contains("nested deeper than 512 elements"))
        #expect(Reading(.xml, "<r>\(deep)", root: "r.e").faultText.contains("nested deeper than 512 elements"))
        let twins = String(repeating: "<a/><a>", count: 300) + String(repeating: "</a>", count: 300)
        #expect(Reading(.xml, "<r>\(twins)</r>").faultText.contains("nested deeper than 508 levels"))
        let sound = String(repeating: "<a>", count: 500) + "1" + String(repeating: "</a>", count: 500)
        #expect(Reading(.xml, sound).records.count == 1)
    }

    @Test func `attributes keep their order, so that the same document makes the same job in every run`() {
        let attributes = (0..<50).map { "a\($0)='\($0)'" }.joined(separator: " ")
        let members = (0..<50).map { "\"@a\($0)\":\"\($0)\"" }.joined(separator: ",")
        #expect(Reading(.xml, "<r \(attributes)/>").records == ["{\(members)}"])
    }

    @Test func `a record without an end is refused at the size of the largest one`() {
        let text = [UInt8](repeating: UInt8(ascii: "x"), count: 1 << 16)
        let reading = Reading(
            .xml, RepeatedBytes("<r><e>1</e><e>", then: text, times: 1024), root: "r.e",
            limits: RecordLimits(maximumBytes: 2 << 20))
        #expect(reading.records == ["\"1\""])
        #expect(reading.faultText.contains("the record is larger than 2 MiB"), "\(reading.faultText)")
        let tags = Array(String(repeating: "<a/>", count: 1 << 12).utf8)
        let whole = Reading(
            .xml, RepeatedBytes("<r><e>1</e>", then: tags, times: 1024), limits: RecordLimits(maximumBytes: 2 << 20))
        #expect(whole.faultText.contains("--root picks elements of the document as records"), "\(whole.faultText)")
    }

    @Test func `text that is no UTF-8 is reported as such in any division into pieces`() {
        let bytes = Array("<a><b>Str".utf8) + [0xBE] + Array("<b/></a>".utf8)
        for size in 1...20 {
            let reading = Reading(.xml, bytes, pieces: size)
            #expect(
                reading.faultText.contains("column 10 (byte 9): this is not well-formed XML: the text is no UTF-8 here")
            )
        }
    }

    @Test func `a tag without an end is refused`() {
        let piece = [UInt8](repeating: UInt8(ascii: "x"), count: 1 << 20)
        let reading = Reading(.xml, RepeatedBytes("<r><e>1</e><e a='", then: piece, times: 1024), root: "r.e")
        #expect(reading.records == ["\"1\""] && reading.faultText.contains("may have 10 MB"), "\(reading.faultText)")
    }

    @Test func `a tag of too many attributes is refused before the parser has all of it`() throws {
        let attributes = Array((0..<1_000).map { " a\($0)='>'" }.joined().utf8)
        let endless = RepeatedBytes("<r><e>1</e>\n<e", then: attributes, times: 1_000)
        let reading = Reading(.xml, endless, root: "r.e")
        #expect(reading.records == ["\"1\""] && endless.bytesRead < 200_000, "\(endless.bytesRead)")
        #expect(
            reading.faultText == "line 2, column 1 (byte 12): an element has more than 2048 attributes and namespaces")
        let few = (0..<2_000).map { " a\($0)='\"='" }.joined()
        #expect(try #require(Reading.always(.xml, "<r\(few)/>")).fault == nil)
        let many = (0..<2_049).map { "\na\($0)=''" }.joined()
        for size in [1_000, 1 << 16] {
            let reading = Reading(.xml, "<r><e\(many)/></r>", pieces: size)
            #expect(
                reading.faultText.hasPrefix("line 1, column 4 (byte 3): an element has more than"),
                "\(reading.faultText)")
        }
        let quotes = String(repeating: "<a b=''/>", count: 20_000)
        let others = "<![CDATA[\(quotes)]]><!--\(quotes)--><?a \(quotes)?>"
        #expect(Reading(.xml, "<r>\(others)</r>").records == ["\"\(quotes)\""])
    }

    @Test func `namespaces count while their elements are open`() {
        func elements(_ count: Int, _ end: String) -> String {
            (0..<count).map { "<e xmlns:a\($0)='u'\(end)>" }.joined()
        }
        #expect(Reading(.xml, "<r>\(elements(5_000, "/"))</r>").fault == nil)
        let nested = (0..<250).map { level in "<e" + (0..<10).map { " xmlns:a\(level)b\($0)='u'" }.joined() + ">" }
        #expect(Reading(.xml, nested.joined()).faultText.contains("more than 2048 attributes and namespaces"))
    }

    @Test func `a document of ever new names is refused, and one that repeats many is read`() {
        let names = { (count: Int) in (0..<count).map { "<e><a\($0)/></e>" }.joined() }
        #expect(
            Reading(.xml, "<r>\(names(70_000))</r>", root: "r.e").faultText.contains("more than 65536 different names"))
        let attributes = (0..<70_000).map { "<e a\($0)='1'/>" }.joined()
        #expect(
            Reading(.xml, "<r>\(attributes)</r>", root: "r.x").faultText.contains("more than 65536 different names"))
        let read = Reading(.xml, "<r>\(names(10_000))\(names(10_000))</r>", root: "r.e")
        #expect(read.records.count == 20_000 && read.fault == nil)
    }

    @Test func `records of a document without end are handed on as they end`() {
        let tags = Array(String(repeating: "<e><id>1</id></e>\n", count: 1000).utf8)
        let source = RepeatedBytes("<r>", then: tags, times: 100)
        var before: Int?
        var count = 0
        do throws(InputFault) {
            let reader = InputReader(source, InputReading(format: .xml, root: RecordRoot("r.e")))
            let note: RecordSink = { _ in
                count += 1
                if before == nil { before = source.bytesRead }
            }
            while try reader.next(note) {}
        } catch {
            #expect(error.text.contains("1 is still open"))
        }
        #expect(count == 100_000)
        #expect((before ?? .max) < 3 * tags.count)
    }
}
