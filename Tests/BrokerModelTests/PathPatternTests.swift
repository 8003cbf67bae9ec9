import BrokerModel
import Testing

@Suite(.timeLimit(.minutes(5)))
struct PathPatternTests {
    private func values(_ pattern: String, _ path: String) throws -> [String: String]? {
        try PathPattern(pattern).match(.init(path)).map {
            Dictionary(uniqueKeysWithValues: $0.map { ($0.name, $0.value) })
        }
    }

    @Test(arguments: [
        ("/articles/:articleID", "/articles/5", ["articleID": "5"]),
        ("/articles/:articleID", "articles/5/", ["articleID": "5"]),
        ("/articles/:articleID", "/articles/5?page=2#top", ["articleID": "5"]),
        ("/articles/:articleID/comments/:commentID", "/articles/5/comments/7", ["articleID": "5", "commentID": "7"]),
        ("/feeds/:name.json", "/feeds/news.json", ["name": "news"]),
        ("/feeds/:name.json", "/feeds/a.json.json", ["name": "a.json"]),
        ("/maps/:x-:y", "/maps/1-2-3", ["x": "1", "y": "2-3"]),
        ("/users/:name", "/users/Ren%C3%A9%20B", ["name": "René B"]),
        ("/users/:name", "/users/100%", ["name": "100%"]),
        ("/users/:name", "/users/a%2Fb", ["name": "a/b"]),
        ("/articles", "/articles", [:]),
        ("/", "", [:]),
    ])
    func `a path that fits gives its parameters`(pattern: String, path: String, expected: [String: String]) throws {
        #expect(try values(pattern, path) == expected)
    }

    @Test(arguments: [
        ("/articles/:articleID", "/articles"), ("/articles/:articleID", "/articles/"),
        ("/articles/:articleID", "/articles/5/comments"), ("/articles/:articleID", "/Articles/5"),
        ("/articles/:articleID", "/articles//5"), ("/feeds/:name.json", "/feeds/.json"),
        ("/feeds/:name.json", "/feeds/news.xml"), ("/maps/:x-:y", "/maps/12"), ("/articles", "/articles/5"),
        ("/articles", ""), ("/a:b", "/a"),
    ])
    func `a path that does not fit gives nothing`(pattern: String, path: String) throws {
        #expect(try values(pattern, path) == nil)
    }

    @Test func `values of a path are decoded`() throws {
        let values = try values("/users/:name/files/:file.txt", "/users/Ren%C3%A9%2FB%3F/files/100%25.txt")
        #expect(values == ["name": "René/B?", "file": "100%"])
    }

    @Test(arguments: ["/articles/:", "/:a:b", "/:a/:a", "/a/:/b"])
    func `an ambiguous pattern is refused`(pattern: String) {
        #expect(throws: PathPatternError.self) { try PathPattern(pattern) }
    }
}
