import BrokerJSON
import BrokerModel
import TestSupport
import Testing

@testable import BrokerStaging

/// Records that are identified by their content, and keys with dots.
@Suite(.timeLimit(.minutes(5))) struct StagedContentTests {
    private static let model = """
        {"entities": {"Line": {"identity": "hash", "attributes": {
          "hash": {"type": "string", "key": "@record.@content"}, "a": {"type": "string", "key": ["a.b"]},
          "c": {"type": "integer64", "key": [["d", "e.f"]]}, "nothing": {"type": "string", "key": [""]}}}}}
        """

    @Test func `a record has the hash of its canonical JSON`() throws {
        let cases = [
            (#"{"a":1}"#, "015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862"),
            (
                #"{"b": {"d": -0, "c": "\u0022"}, "a": 1, "a": [1.50, true, null, "\u00e9"]}"#,
                "2a99f6751a0a037d2e2578e4ab1282754c6c752e66637d51b644c4d73c409bbe"
            ),
            (
                #"{"":"\#(String(repeating: "x", count: 200))"}"#,
                "abec01ba6c681a12e012b4ba3d289708c3848cb8ef2a59153c73d8219aaf9820"
            ),
        ]
        for (json, expected) in cases {
            let document = try JSONDocument(parsing: JSONText(copying: Array(json.utf8)))
            let hash = withExtendedLifetime(document) { ContentHash(of: document.root) }
            #expect(String(decoding: hash.text, as: UTF8.self) == expected)
        }
    }

    @Test func `equal records are one object, and keys are as they are`() throws {
        let staged = try Staging(Self.model).stage(
            #"{"Line": [{"a.b": "x", "d": {"e.f": 5}, "": "n"}, {"": "n", "d": {"e.f": 5}, "a.b": "x"}, {"a.b": "x"}]}"#
        )("Line")
        #expect(staged.count == 2)
        #expect(staged[0].contains("a=x c=5 nothing=n"), "\(staged)")
    }
}

/// Finding rows by identity, and the order in which rows are merged.
@Suite(.timeLimit(.minutes(5))) struct StagedIdentityTests {
    private static func staging(_ identity: String) throws -> Staging {
        try Staging(
            """
            {"entities": {"Thing": {"identity": \(identity), "attributes": {
              "number": "integer64", "text": "string", "value": "integer64", "other": "integer64"}}}}
            """)
    }

    @Test(arguments: [#""number""#, #""text""#, #"["text", "number"]"#])
    func `each identity has one row with its last value, for any number of records`(identity: String) throws {
        let staging = try Self.staging(identity)
        var generator = SeededGenerator(for: "rows by identity \(identity)")
        var expected: [String: Int] = [:]
        var order: [String] = []
        let records = (0..<20_000).map { value in
            let key = Int.random(in: 0..<6_000, using: &generator)
            let (number, text) = (
                Int64(key) &* 0x5851_F42D_4C95_7F2D, String(repeating: "é", count: key % 40) + "\(key)"
            )
            let row = "number=\(number) text=\(text)"
            if expected.updateValue(value, forKey: row) == nil { order.append(row) }
            return #"{"number":\#(number),"text":"\#(text)","value":\#(value)}"#
        }
        let staged = try staging.stage("{\"Thing\": [\(records.joined(separator: ","))]}")
        #expect(staged("Thing") == order.map { "\($0) value=\(expected[$0]!)" })
    }

    @Test func `an identity has one row among any number of rows without identity`() throws {
        let staging = try Staging(
            """
            {"entities": {"Thing": {"identity": "number", "identityOptional": true, "attributes": {
              "number": "integer64", "value": "integer64"}}}}
            """)
        var generator = SeededGenerator(for: "rows with and without identity")
        for count in 0..<200 {
            var expected: [Int: Int] = [:]
            var nameless = 0
            let records = (0..<count % 40).map { value in
                let number = Int.random(in: -6..<6, using: &generator)
                guard number >= 0 else {
                    nameless += 1
                    return #"{"number": null, "value": \#(value)}"#
                }
                expected[number] = value
                return #"{"number": \#(number), "value": \#(value)}"#
            }
            let staged = try staging.stage("{\"Thing\": [\(records.joined(separator: ","))]}")("Thing")
            let named = staged.filter { !$0.hasPrefix("number=nil") }
            #expect(named.sorted() == expected.map { "number=\($0) value=\($1)" }.sorted())
            #expect(staged.count - named.count == nameless)
        }
    }

    @Test func `texts are ordered by their bytes, compound identities by their first difference`() throws {
        let records = ["b", "", "a\\u0000", "é", "a", "B"].map { #"{"text": "\#($0)", "number": 1}"# }
        let texts = try Self.staging(#""text""#).stage("{\"Thing\": [\(records.joined(separator: ","))]}")
        #expect(texts.merged("Thing") == [["", "B", "a", "a\u{0}", "b", "é"].map { "number=1 text=\($0)" }])
        let pairs = try Self.staging(#"["text", "number"]"#).stage(
            #"{"Thing": [{"text": "b", "number": 1}, {"text": "a", "number": 9}, {"text": "a", "number": -9}]}"#)
        #expect(pairs.merged("Thing") == [["number=-9 text=a", "number=9 text=a", "number=1 text=b"]])
    }

    @Test func `texts of any length are in the order of their bytes, whatever they share`() throws {
        var generator = SeededGenerator(for: "order of texts")
        let staging = try Self.staging(#""text""#)
        let letters = ["a", "a", "b", "\u{0}", "é"]
        for _ in 0..<Cases.count(20, of: 100) {
            var texts: Set<String> = []
            for _ in 0..<200 {
                let length = Int.random(in: 0...12, using: &generator)
                texts.insert((0..<length).map { _ in letters.randomElement(using: &generator)! }.joined())
            }
            let expected = texts.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
            let records = expected.shuffled(using: &generator).map { text in
                "{\"text\": \"\(text.replacing("\u{0}", with: "\\u0000"))\", \"number\": 1}"
            }
            let staged = try staging.stage("{\"Thing\": [\(records.joined(separator: ","))]}")
            #expect(staged.merged("Thing") == [expected.map { "number=1 text=\($0)" }])
        }
    }
}

/// Records with keys that the model does not name.
@Suite(.timeLimit(.minutes(5))) struct UnknownKeyTests {
    private let staging: Staging

    init() throws {
        staging = try Staging(
            """
            {"entities": {
              "Person": {"identity": "id", "attributes": {"id": "integer64", "name": "string"},
                "relationships": {"notes": {"entity": "Note", "toMany": true}}},
              "Guest": {"identity": "id", "identityOptional": true, "attributes": {"id": "integer64", "name": "string"}},
              "Log": {"ignore": ["trace", "meta.raw"], "attributes":
                {"kind": {"type": "string", "key": "meta.kind"}, "payload": "transformable",
                 "size": {"type": "integer64", "key": "payload.size"}}},
              "Open": {"extra": true, "attributes": {"size": "double", "count": "integer64"}},
              "Note": {"attributes": {"text": "string", "city": {"type": "string", "key": "address.city"}}}}}
            """)
    }

    private func stage(_ payload: String, _ policy: InvalidRecordPolicy) throws -> StagedRows {
        let document = try JSONDocument(parsing: JSONText(copying: Array(payload.utf8)))
        let operations = document.root.members.map { key, value in
            StagingOperation(entity: staging.plan.model.index(ofEntity: key.string!)!, json: value)
        }
        let collections = JobCollection.collections(of: ShortList(operations), in: document, refusesUnknownKeys: true)
        return StagedJobRows.unite(try collections.map { try $0.stage(staging.plan, policy) }, staging.plan)
    }

    // MARK: - None of the keys is known

    @Test(arguments: [
        (#"{"Note": {"error": "not found"}}"#, "/Note", #""error""#),
        (#"{"Note": [{"text": "a"}, {"message": "no", "code": 404}]}"#, "/Note/1", #""message", "code""#),
        (#"{"Guest": {"error": "not found"}}"#, "/Guest", #""error""#),
        (#"{"Person": {"id": 1, "notes": [{"txt": "a"}]}}"#, "/Person/notes/0", #""txt""#),
        (#"{"Note": {"note": {"txt": "a"}}}"#, "/Note/note", #""txt""#),
        (#"{"Note": {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6}}"#, "/Note", #""e" …"#),
    ])
    func `a record without a known key is at fault`(payload: String, path: String, keys: String) throws {
        let fault = try staging.fault(payload)
        #expect(fault?.code == .noKnownKey && fault?.path == path, "\(String(describing: fault))")
        #expect(fault?.message.contains(keys) == true, "\(String(describing: fault))")
    }

    @Test func `a missing identity is reported first, also when no key is known`() throws {
        #expect(try staging.fault(#"{"Person": {"error": "not found"}}"#)?.code == .missingIdentity)
    }

    @Test(arguments: [
        #"{"Note": {}}"#, #"{"Note": [{}, {"text": null, "x": 1}]}"#, #"{"Note": {"address": {"zip": 1}}}"#,
        #"{"Note": {"address": null, "x": 1}}"#, #"{"Guest": {"name": "a", "x": 1}}"#,
    ])
    func `one known key, or none at all, is a record`(payload: String) throws {
        #expect(try staging.fault(payload) == nil)
    }

    @Test func `with skip, the record alone is rejected`() throws {
        let staged = try staging.stage(#"{"Note": [{"text": "a"}, {"txt": "b"}, {"text": "c"}]}"#, .skip)
        #expect(staged.rejections == ["noKnownKey /Note/1"])
    }

    @Test(arguments: [
        #"{"Log": {"trace": {"a": {"b": 1}}, "meta": {"kind": "k", "raw": [1]}}}"#,
        // A value that an attribute takes whole has no unknown keys, though another attribute leads into it.
        #"{"Log": {"payload": {"size": 1, "more": {"x": 1}}}}"#,
        #"{"Log": {"trace": 1}}"#,
    ])
    func `ignored keys, and keys inside of a value that the model takes, are known`(payload: String) throws {
        #expect(try staging.fault(payload) == nil)
        _ = try stage(payload, .fail)
    }

    // MARK: - Unknown keys fail

    @Test(arguments: [
        (#"{"Person": [{"id": 1}, {"id": 2, "nmae": "b"}]}"#, "/Person/1", #""nmae""#),
        (#"{"Person": {"id": 1, "b": {"x": 1}, "a": 2}}"#, "/Person", #""b""#),
        (#"{"Note": {"address": {"zip": 1, "city": "c"}, "text": "t"}}"#, "/Note", #"the path address.zip of Note."#),
        (#"{"Note": {"address.city": "c", "text": "t"}}"#, "/Note", #"the key "address.city" of Note, as a dot"#),
        (#"{"Note": {"address": {"ctiy": "c"}, "text": "t"}}"#, "/Note", #"did you mean "city"?"#),
        (#"{"Person": {"id": 1, "notes": [{"text": "a", "x": 1}]}}"#, "/Person/notes/0", #""x""#),
        (#"{"Log": {"trace": 1, "meta": {"raw": 1, "x": 1}}}"#, "/Log", "the path meta.x of Log"),
    ])
    func `where unknown keys fail, a record that has one is at fault`(payload: String, path: String, key: String) throws
    {
        #expect(try staging.fault(payload) == nil)
        let refusal = #expect(throws: StagingRefusal.self) { try stage(payload, .fail) }
        guard case .fault(let fault) = refusal else { return }
        #expect(fault.code == .unknownKey && fault.path == path && fault.message.contains(key), "\(fault)")
    }

    @Test func `where unknown keys fail, nothing becomes an extra value`() throws {
        let rows = try stage(
            #"{"Open": [{"size": 9007199254740993}, {"count": "x"}, {"size": 1, "y": 2}, {"count": 1}]}"#, .skip)
        #expect(
            rows.rejected.map { "\($0.code.rawValue) \($0.path ?? "")" }
                == ["invalidValue /Open/0/size", "invalidValue /Open/1/count", "unknownKey /Open/2"])
        #expect(rows.warnings.isEmpty && rows.rowCount == 1)
    }

    @Test func `a warning about values leads to the first three of them, in whichever part`() throws {
        let text = #"[[{"count": "1x", "y": 1}, {"count": 2}], [{"count": "3x"}, {"count": []}, {"count": "5x"}]]"#
        let document = try JSONDocument(parsing: JSONText(copying: Array(text.utf8)))
        let parts = try document.root.elements.map { records in
            let entity = staging.plan.model.index(ofEntity: "Open")!
            let operation = StagingOperation(entity: entity, json: records)
            return try JobCollection.collections(of: ShortList([operation]), in: document)[0].stage(staging.plan, .fail)
        }
        let warning = StagedJobRows.unite(parts, staging.plan).warnings.first { $0.code == .extraValue }
        #expect(
            warning?.count == 4 && warning?.paths == ["/0/0/count", "/1/0/count", "/1/1/count"], "\(warning as Any)")
    }

    @Test func `where unknown keys fail, records without them are staged`() throws {
        let rows = try stage(#"{"Person": [{"id": 1, "name": "a"}, {"id": 2, "notes": [{"text": "t"}]}]}"#, .fail)
        #expect(rows.warnings.isEmpty)
    }
}

@Suite(.timeLimit(.minutes(5))) struct StagedWarningTests {
    private let staging: Staging

    init() throws {
        staging = try Staging(
            """
            {"entities": {"Person": {"identity": "id", "attributes": {
              "id": "integer64", "email": {"type": "string", "key": "contact.email"}},
              "relationships": {"friend": {"entity": "Person"}}}, "Note": {"attributes": {"text": "string"}}}}
            """)
    }

    @Test func `an unknown key has one warning with its path and its count`() throws {
        let staged = try staging.stage(
            """
            {"Person": [{"id": 1, "bunk": 1, "contact": {"phone": 1, "email": "a"}},
              {"bunk": {"deep": 1}, "id": 2, "friend": {"id": 3, "bunk": 2}}, {"id": 4, "contact": {"phone": 2}}]}
            """)
        #expect(staged.warnings == ["Person bunk 3", "Person contact.phone 2"])
    }

    @Test(arguments: ["double", "float"])
    func `a number that becomes another one has a warning, a rounded fraction has none`(_ type: String) throws {
        let staging = try Staging(
            """
            {"entities": {"Size": {"identity": "id", "attributes": {"id": "integer64", "value": "\(type)", "other": "\(type)"}},
             "Mark": {"identity": "at", "attributes": {"at": "\(type)"}},
             "Note": {"attributes": {"text": "string"}, "relationships": {"mark": {"entity": "Mark"}}}}}
            """)
        let exact = [
            "0.1", "1e-300", "1.5", "0.10000000000000001", "3.14159265358979323846264338327950288", "0", "-0.0",
            "0e-999",
            "9007199254740992", "-9007199254740992", "9007199254740994", "9223372036854775808", "1e22", "1e23",
            "123456789012345680000", "123456789012345683968", "36893488147419103232", "9.9999999999999992e22",
            "\"0.1\"", "\"9007199254740992\"", "true", "null",
        ]
        let inexact = [
            "9007199254740993", "-9007199254740993", "9223372036854775807", "123456789012345678901", "1e-400",
            "-1e-400",
            "0.\(String(repeating: "0", count: 400))1", "\"9007199254740993\"", "\"1e-400\"",
        ]
        for (number, text) in (exact + inexact).enumerated() {
            let limited = type == "float" && text.contains("1e300")
            guard !limited else { continue }
            let staged = try staging.stage(#"{"Size": {"id": \#(number), "value": \#(text)}}"#)
            #expect(staged.warnings == (number < exact.count ? [] : ["Size value 1"]), "\(text)")
        }
        let staged = try staging.stage(
            """
            {"Size": [{"id": 1, "value": 9007199254740993, "other": 1e-400}, {"id": 2, "value": 9007199254740995}],
             "Note": {"mark": 9007199254740993}}
            """)
        #expect(staged.warnings == ["Size value 2", "Size other 1", "Mark at 1"])
    }

    /// A model with limits that inexact numbers break.
    private static let limited = """
        {"entities": {"Size": {"identity": "id", "attributes": {
            "id": "integer64", "skipped": {"type": "double", "max": 5, "onInvalid": "skip"},
            "cleared": {"type": "double", "max": 5, "onInvalid": "null"}, "required": {"type": "double", "max": 5},
            "large": "double", "small": "double"}},
         "Mark": {"identity": "at", "attributes": {"at": "double", "text": "string"}},
         "Note": {"attributes": {"text": "string"}, "relationships": {"mark": {"entity": "Mark"}}}}}
        """

    @Test(arguments: ["skipped", "cleared"])
    func `a number that is not stored is not inexact, and neither is the next value`(_ name: String) throws {
        let staged = try Staging(Self.limited).stage(
            #"{"Size": {"id": 1, "\#(name)": 9007199254740993, "large": 0.5, "small": 0.5}}"#)
        #expect(staged.warnings == ["Size \(name) 1"], "as an ignored value")
    }

    @Test func `the numbers of a rejected record have no warning`() throws {
        let staged = try Staging(Self.limited).stage(
            """
            {"Size": [{"id": 1, "large": 9007199254740993, "small": "x"}, {"id": 2, "large": 1, "required": 9007199254740993},
             {"id": 3, "large": 2, "small": 1e-400}]}
            """, .skip)
        #expect(staged.warnings == ["Size small 1"])
    }

    @Test func `collections of one job count their unknown keys together`() throws {
        let staged = try staging.stage(
            #"{"Person": [{"id": 1, "x": 1}], "Note": {"x": 1, "text": "t"}, "Person": [{"id": 2, "x": 1, "y": 1}]}"#)
        #expect(staged.warnings == ["Person x 2", "Note x 1", "Person y 1"])
    }

    @Test func `a record that uses keys as data costs one pass and a thousand warnings`() throws {
        // Quadratic work would take hours here.
        let keys = "\"text\":\"t\"," + (0..<300_000).map { "\"k\($0)\":0" }.joined(separator: ",")
        let staged = try staging.stage("{\"Note\": {\(keys)}, \"Person\": [], \"Note\": {\(keys)}}")
        let named = (0..<1_000).map { "Note k\($0) 2" }
        #expect(staged.warnings == named + ["Note  598000"])
    }
}

/// Collections are staged separately, and their union equals the result of one context.
@Suite(.timeLimit(.minutes(5))) struct StagedUnitingTests {
    @Test func `later collections win attribute by attribute, and links come along`() throws {
        let staged = try Staging(company).stage(
            """
            {"Employee": [{"id": 1, "name": "a", "department": 10}, {"id": 2}], "Department": [{"id": 10, "name": "x"}],
             "Employee": [{"id": 2, "name": "b"}, {"id": 1, "department": null}],
               "Department": {"id": 11, "employees": [1]}}
            """)
        #expect(staged("Employee") == ["id=1 name=a department=@11", "id=2 name=b"])
        #expect(staged("Department") == ["id=10 name=x", "id=11"])
        #expect(staged.origins("Department") == [.record, .record])
    }

    @Test func `rejections of all collections are listed in payload order`() throws {
        let staged = try Staging(company).stage(
            #"{"Employee": [{"id": "x"}], "Department": [{}], "Employee": [{"id": 1}, {"id": "y"}]}"#, .skip)
        #expect(
            staged.rejections == [
                "invalidValue /Employee/0/id", "missingIdentity /Department/0", "invalidValue /Employee/1/id",
            ])
    }

    @Test func `a job without operations is one empty collection`() throws {
        #expect(try Staging(company).stage("{}")("Employee") == [])
    }

    @Test func `random collections, staged separately and united, equal those staged in one context`() throws {
        let staging = try Staging(company)
        var generator = SeededGenerator(for: "collections united")
        for _ in 0..<300 {
            var payload = CompanyPayload(generator: generator)
            let text = payload.collections(count: 6)
            generator = payload.generator
            let apart = try staging.stage(text, .skip)
            let together = try staging.stageTogether(text, .skip)
            for entity in staging.plan.model.entities.map(\.name) {
                #expect(apart(entity).sorted() == together(entity).sorted(), "\(entity) of \(text)")
            }
            #expect(apart.links.sorted() == together.links.sorted(), "\(text)")
            #expect(apart.replacements.sorted() == together.replacements.sorted(), "\(text)")
            #expect(apart.rejections == together.rejections, "\(text)")
            #expect(apart.warnings.sorted() == together.warnings.sorted(), "\(text)")
        }
    }
}

/// Staging asks for the memory of its rows and rejections.
@Suite(.timeLimit(.minutes(5))) struct StagingMemoryTests {
    private let staging: Staging

    init() throws {
        staging = try Staging(
            """
            {"entities": {
              "Person": {"identity": "id", "attributes": {"id": "integer64", "name": "string"},
                         "relationships": {"friends": {"entity": "Person", "toMany": true}}}}}
            """)
    }

    private func payload(_ record: String, _ count: Int) -> String {
        "{\"Person\": [" + Array(repeating: record, count: count).joined(separator: ",") + "]}"
    }

    @Test(arguments: ["{}", #"{"id": 1, "friends": [{}]}"#, #"{"id": 1, "friends": ["x"]}"#])
    func `a listed rejection takes the memory of its message on the way to the client`(record: String) throws {
        let taken = try #require(try staging.memory(payload(record, 1_000), .skip))
        #expect(taken > 1_000 * RejectionList.listedBytes)
        #expect(try staging.memory(payload(record, 1_000), .skip, limit: taken / 2) == nil)
    }

    @Test func `a rejection that is only counted takes no memory`() throws {
        let listed = try #require(try staging.memory(payload("{}", RejectionList.maximumListed), .skip))
        let counted = try #require(try staging.memory(payload("{}", 3 * RejectionList.maximumListed), .skip))
        #expect(counted == listed)
    }

    @Test func `rows take more than their text`() throws {
        let records = (0..<1_000).map { "{\"id\": \($0)}" }.joined(separator: ",")
        let taken = try #require(try staging.memory("{\"Person\": [\(records)]}"))
        #expect(taken > records.utf8.count)
        #expect(try staging.memory("{\"Person\": [\(records)]}", limit: taken / 2) == nil)
    }

    @Test func `a context counts its memory besides rows, and an entry for each entity of the model`() throws {
        let small = try #require(try staging.memory(#"{"Person": {"id": 1}}"#))
        #expect(small >= 3_072)
        #expect(try staging.memory(#"{"Person": {"id": 1}}"#, limit: 3_000) == nil)
        let entities = (0..<1_000).map { #""E\#($0)": {"identity": "id", "attributes": {"id": "integer64"}}"# }
        let many = try Staging("{\"entities\": {\(entities.joined(separator: ","))}}")
        let large = try #require(try many.memory(#"{"E0": {"id": 1}}"#))
        #expect(large >= small + 999 * MemoryLayout<UnsafeRawPointer>.stride)
    }
}

/// Comparison of byte ranges.
@Suite(.timeLimit(.minutes(5))) struct BytesTests {
    @Test func `ranges of any length are equal only when every byte is`() {
        func areEqual(_ left: [UInt8], _ right: [UInt8]) -> Bool {
            left.withUnsafeBufferPointer { left in
                right.withUnsafeBufferPointer { Bytes.areEqual(left, $0) }
            }
        }
        for count in 0...40 {
            let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 * 37 + 5) }
            #expect(areEqual(bytes, Array(bytes)), "\(count) bytes")
            #expect(!areEqual(bytes, bytes + [0]), "\(count) bytes and one more")
            for position in bytes.indices {
                var other = bytes
                other[position] ^= 0x80
                #expect(!areEqual(bytes, other), "the byte \(position) of \(count)")
            }
        }
    }
}
