import BrokerClient
import Testing

/// The paths of a server's resources, filled from objects.
@Suite(.timeLimit(.minutes(5))) struct RouterTests {
    private struct Article: Codable {
        var articleID: Int
        var section: String?
        var isOpen = true
    }

    @Test func `a path is filled from a value, a dictionary, or JSON`() throws {
        var router = try Router(["Article": "/sections/:section/articles/:articleID"])
        #expect(
            try router.path(for: Article(articleID: 5, section: "R&D/x"), as: "Article")
                == "/sections/R%26D%2Fx/articles/5")
        #expect(try router.path(for: ["section": "a", "articleID": "7"], as: "Article") == "/sections/a/articles/7")
        #expect(
            try router.path(json: #"{"section": "ü", "articleID": 123456789012345678}"#, as: "Article")
                == "/sections/%C3%BC/articles/123456789012345678")
        try router.route("Article", to: "/articles/:articleID.json")
        #expect(try router.path(for: Article(articleID: 5), as: "Article") == "/articles/5.json")
        #expect(try Router.path("/open/:isOpen", for: Article(articleID: 5)) == "/open/true")
    }

    @Test func `parameters that the object lacks are reported, and so are routes that the router lacks`() throws {
        let router = try Router(["Article": "/sections/:section/articles/:articleID"])
        let lacking = #expect(throws: BrokerError.self) {
            try router.path(for: Article(articleID: 5), as: "Article")
        }
        #expect(lacking?.description.contains("needs a value for :section") == true)
        let unknown = #expect(throws: BrokerError.self) { try router.path(for: Article(articleID: 5), as: "Artcle") }
        #expect(unknown?.description.contains("no pattern Artcle") == true)
        let list = #expect(throws: BrokerError.self) { try router.path(for: [1, 2], as: "Article") }
        #expect(list?.description.contains("an array") == true)
        let pattern = #expect(throws: BrokerError.self) { try Router(["A": "/:"]) }
        #expect(pattern?.description.contains("no name behind it") == true)
    }
}
