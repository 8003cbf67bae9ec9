import Foundation
import Testing

/// `broker submit` with whole payloads: `--path`, `--mapping`, or key paths alone.
@Suite(.timeLimit(.minutes(5))) struct PayloadCommandTests {
    private static let model = """
        {"entities": {
           "Article": {"identity": "articleID", "attributes": {"articleID": "integer64", "title": "string"}},
           "Animal": {"abstract": true, "identity": "name", "attributes": {"name": "string"}},
           "Cat": {"parent": "Animal"}, "Dog": {"parent": "Animal"}},
         "mappings": {
           "article": {"entity": "Article", "attributes": {"headline": "title"}},
           "animal": {"select": {"key": "kind", "cases": {"cat": "cat", "dog": "dog"}, "otherwise": null}},
           "cat": {"entity": "Cat"}, "dog": {"entity": "Dog"}},
         "routes": [{"path": "/articles/:articleID", "mapping": "article"}, {"keyPath": "animals", "mapping": "animal"},
                    {"keyPath": "error", "error": true}]}
        """

    private let programs: Programs

    init() throws {
        programs = try Programs()
        try programs.write(Self.model, to: "payloads.json")
    }

    private func submit(_ arguments: [String], _ input: String) throws -> Programs.Result {
        try programs.run(
            "broker", ["submit", "--store", "app.sqlite", "--model", "payloads.json"] + arguments, input: input)
    }

    private func rows(_ sql: String) throws -> [String] { try Database(programs.path("app.sqlite")).rows(sql) }

    @Test func `a payload is read by its path, by a mapping, or by its keys`() throws {
        let byPath = try submit(["--path", "/articles/5"], #"{"headline": "Five"}"#)
        #expect(byPath.status == 0, "\(byPath.complaints)")
        #expect(byPath.output.contains("Article"))
        #expect(
            try submit(["--mapping", "article"], #"[{"articleID": 6, "headline": "Six"}, {"articleID": 7}]"#).status
                == 0)
        let byKeys = try submit(
            [],
            #"{"animals": [{"kind": "cat", "name": "Tom"}, {"kind": "dog", "name": "Rex"}, {"kind": "cow", "name": "Bo"}]}"#
        )
        #expect(byKeys.status == 0, "\(byKeys.complaints)")
        #expect(try rows("SELECT articleID, title FROM Article ORDER BY 1") == ["5|Five", "6|Six", "7|NULL"])
        #expect(try rows("SELECT name, _entity FROM Animal ORDER BY 1") == ["Rex|Dog", "Tom|Cat"])
        #expect(try rows("SELECT name FROM Cat") == ["Tom"])
    }

    @Test func `a mixed list is cut into jobs like any other`() throws {
        let lines = (0..<250).map { #"{"kind": "\#($0 % 2 == 0 ? "cat" : "dog")", "name": "n\#($0)"}"# }.joined(
            separator: "\n")
        let result = try submit(["--mapping", "animal", "--batch-records", "100"], lines)
        #expect(result.output.contains("250 records in 3 jobs committed"), "\(result.output) \(result.complaints)")
        #expect(try rows("SELECT _entity, count(*) FROM Animal GROUP BY 1") == ["Cat|125", "Dog|125"])
    }

    @Test func `a fault of a payload is reported, and the command fails`() throws {
        let remote = try submit([], #"{"error": "try again later"}"#)
        #expect(remote.status == 1)
        #expect(remote.complaints.contains("try again later"), "\(remote.complaints)")
        let unknown = try submit(["--path", "/nowhere"], #"{"x": 1}"#)
        #expect(unknown.status == 1)
        #expect(
            unknown.complaints.contains("No route fits this payload with the path \"/nowhere\""),
            "\(unknown.complaints)")
        #expect(try submit(["--mapping", "artcle"], "{}").complaints.contains("no mapping \"artcle\""))
        let both = try submit(["--mapping", "article", "--entity", "Article"], "{}")
        #expect(both.status == 2)
        #expect(both.complaints.contains("give one of them"), "\(both.complaints)")
    }
}
