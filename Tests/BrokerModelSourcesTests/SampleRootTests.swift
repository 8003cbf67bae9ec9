import BrokerJSON
import BrokerModel
import Testing

@testable import BrokerModelSources

@Suite(.timeLimit(.minutes(5))) struct SampleRootTests {
    private func root(_ json: String, _ entity: String = "Thing", isOnly: Bool = true) throws -> String? {
        let document = try JSONDocument(parsing: JSONText(copying: Array(json.utf8)))
        return withExtendedLifetime(document) { SampleRoot(in: document.root, isOnly: isOnly, entity: entity)?.text }
    }

    @Test func `a list of XML that is named like the entity is not its only record`() throws {
        for (json, path) in [
            (
                #"{"recording-list": {"@count": "9", "recording": [{"@id": "a"}, {"@id": "b"}]}}"#,
                "/recording-list/recording"
            ),
            (#"{"recording-list": {"@count": "1", "recording": {"@id": "a"}}}"#, "/recording-list/recording"),
            (#"{"channel": {"title": "t", "item": {"title": "a", "category": [{"text": "x"}]}}}"#, "/channel/item"),
        ] {
            let document = try JSONDocument(parsing: JSONText(copying: Array(json.utf8)))
            let root = withExtendedLifetime(document) {
                SampleRoot(in: document.root, isOnly: true, isXML: true, entity: "Recording")?.text
            }
            #expect(root == path, "\(json)")
        }
    }

    @Test(
        arguments: [
            (#"{"things": [{"a": 1}], "others": [{"a": 1}, {"a": 2}]}"#, "/things"),
            (#"{"count": 2, "items": [{"a": 1}, {"a": 2}]}"#, "/items"),
            (#"{"639-3": [{"a": 1}]}"#, "/639-3"),
            (#"{"meta": {"page": 1}, "response": {"list": [{"a": 1}]}}"#, "/response/list"),
            (
                #"{"data": {"repository": {"issues": {"edges": [{"node": {"id": 1}, "cursor": "c"}]}}}}"#,
                "data.repository.issues.edges.node"
            ),
            (
                #"{"kind": "Listing", "data": {"after": null, "children": [{"kind": "t3", "data": {"id": 1}}]}}"#,
                "data.children.data"
            ),
            (
                #"{"afn": {"name": "a"}, "aed": {"name": "b"}, "all": {"name": "c"}, "amd": {"name": "d"}, "eur": {"name": "e"}, "usd": {"name": "f"}, "chf": {"name": "g"}, "jpy": {"name": "h"}}"#,
                "/*"
            ),
            (#"{"version": 1, "data": {"1": {"name": "a"}, "2": {"name": "b"}, "3": {"name": "c"}}}"#, "/data/*"),
            (#"{"a.b": [{"a": 1}], "n": 1}"#, nil),
            (#"{"a.b": [{"a": 1}, {"a": 2}], "n": 1}"#, "/a.b"),
            (#"{"items": [], "total": 0}"#, "/items"),
            (#"{"id": 7, "lines": [{"a": 1}, {"a": 2}]}"#, nil),
            (#"{"one": [{"a": 1}, {"a": 2}], "two": [{"b": 1}, {"b": 3}]}"#, nil),
            (#"{"name": "x", "geo": {"lat": 1}}"#, nil),
            (
                #"{"name": "x", "a": 1, "b": 2, "c": 3, "d": 4, "geo": {"features": [{"a": 1}, {"a": 2}]}, "e": []}"#,
                nil
            ),
            (
                #"{"capital": "x", "a": 1, "b": 2, "c": 3, "d": 4, "geo": {"features": [{"a": 1}, {"a": 2}]}, "e": []}"#,
                nil
            ),
            (
                #"{"took": 1, "page": 2, "per_page": 3, "total": 4, "next": 5, "limit": 6, "hits": {"hits": [{"a": 1}]}}"#,
                "/hits/hits"
            ),
            (#"[{"things": [{"a": 1}]}]"#, nil),
        ] as [(String, String?)])
    func `the records of an envelope are found`(json: String, expected: String?) throws {
        #expect(try root(json) == expected)
    }

    @Test func `where a dictionary is expected a small one is one, unless another position is found`() throws {
        let mapped = try Samples("Thing", #"{"a": {"n": 1}, "b": {"n": 2}}"#, isMap: true).model().model
        let root = { (json: String) in
            let document = try JSONDocument(parsing: JSONText(copying: Array(json.utf8)))
            return withExtendedLifetime(document) {
                SampleRoot(in: document.root, isOnly: true, entity: "Thing", model: mapped)?.text
            }
        }
        #expect(try root(#"{"first": {"a": 1}, "second": {"a": 2}}"#) == "/*")
        #expect(try root(#"{"data": {"A1": {"a": 1}, "A2": {"a": 2}, "A3": {"a": 2}}}"#) == "/data/*")
        #expect(try root(#"{"n": 1, "data": {"first": {"a": 1}}}"#) == "/data/*")
    }

    @Test(
        arguments: [
            (#"{"id": 5, "name": "n", "lines": [{"id": 1, "text": "a"}, {"id": 2, "text": "b"}]}"#, nil),
            (#"{"customers": [{"id": 3, "name": "n"}], "next": null}"#, "/customers"),
            (#"{"shop": {"customer": {"id": 3, "name": "n"}}}"#, "/shop/customer"),
            (#"{"page": {"edges": [{"node": {"id": 3, "name": "n"}}]}}"#, "page.edges.node"),
            (#"{"items": [], "name": "page"}"#, "/items"),
            (#"{"id": 8, "name": "feed", "things": [{"id": 3, "name": "n"}]}"#, "/things"),
            (#"{"meta": {"id": 8, "name": "m"}, "list": [{"id": 3, "name": "n"}, {"id": 4, "name": "o"}]}"#, "/list"),
            (#"{"id": 8, "name": "n", "related": [{"id": 3, "name": "n"}, {"id": 4, "name": "o"}]}"#, nil),
        ] as [(String, String?)])
    func `records of an entity that the model has are known by their keys`(json: String, expected: String?) throws {
        let records =
            #"[{"id": 1, "name": "x", "lines": [{"id": 9, "text": "t"}]}, {"id": 2, "name": "y", "lines": []}]"#
        let model = try Samples("Thing", records).model().model
        let document = try JSONDocument(parsing: JSONText(copying: Array(json.utf8)))
        withExtendedLifetime(document) {
            #expect(SampleRoot(in: document.root, isOnly: true, entity: "Thing", model: model)?.text == expected)
        }
    }

    @Test func `an object among others is a record, unless a key names the entity`() throws {
        #expect(try root(#"{"items": [{"a": 1}, {"a": 2}]}"#, isOnly: false) == nil)
        #expect(try root(#"{"things": [{"a": 1}]}"#, isOnly: false) == "/things")
    }

    private func root(_ first: String, and second: String?, isXML: Bool = false) throws -> String? {
        let documents = try ([first] + (second.map { [$0] } ?? [])).map {
            try JSONDocument(parsing: JSONText(copying: Array($0.utf8)))
        }
        return withExtendedLifetime(documents) {
            let second = documents.count > 1 ? documents[1].root : nil
            return SampleRoot(
                in: documents[0].root, isOnly: second == nil, second: second, isXML: isXML, entity: "Thing")?.text
        }
    }

    @Test func `pages one after the other are envelopes, and records with lists are not`() throws {
        let page = #"{"items": [{"a": 1}], "page": 1, "kind": "list"}"#
        #expect(try root(page, and: #"{"items": [{"a": 2}], "page": 2, "kind": "list"}"#) == "/items")
        #expect(try root(page, and: #"{"items": [{"a": 2}], "page": 2, "kind": "other"}"#) == nil)
        #expect(try root(#"{"lines": [{"a": 1}]}"#, and: #"{"lines": [{"a": 1}]}"#) == nil)
        #expect(try root(#"{"id": 1, "items": [{"a": 1}]}"#, and: #"{"id": 2, "items": []}"#) == nil)
        #expect(try root(#"{"ts": 1, "items": [{"a": 1}]}"#, and: #"{"ts": 2, "items": [{"a": 1}]}"#) == nil)
    }

    @Test(
        arguments: [
            (#"{"jsonrpc": "2.0", "id": 1, "result": [{"a": 1}]}"#, "/result"),
            (#"{"jsonrpc": "2.0", "id": 1, "result": {"items": [{"a": 1}], "total": 1}}"#, "/result/items"),
            (#"{"jsonrpc": "2.0", "id": 1, "result": {"id": 7, "a": 1}}"#, "/result"),
            (#"{"jsonrpc": "2.0", "id": 1, "error": {"code": 1}}"#, "/result"),
        ])
    func `the result of a remote procedure call is where the records are`(json: String, expected: String) throws {
        #expect(try root(json, and: nil) == expected)
        #expect(try root(json, and: json) == expected)
    }

    @Test func `one element of XML is a list of one`() throws {
        let feed = #"{"@version": "2.0", "channel": {"title": "t", "link": "l", "item": {"title": "a", "guid": "g"}}}"#
        #expect(try root(feed, and: nil, isXML: true) == "/channel/item")
        #expect(try root(feed, and: nil) == nil)
        #expect(try root(#"{"shop": {"name": "n", "thing": {"a": 1}}}"#, and: nil, isXML: true) == "/shop/thing")
    }
}
