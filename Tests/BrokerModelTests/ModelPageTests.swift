import BrokerJSON
import Foundation
import Testing

@testable import BrokerModel

/// The page about models (`protocol/models.md`) has each word of the model's form, and examples that can be read.
@Suite(.timeLimit(.minutes(5))) struct ModelPageTests {
    private static let folder = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../protocol")
    private let page: String

    init() throws { page = try Self.text(of: "models.md") }

    private static func text(of name: String) throws -> String {
        try String(contentsOf: folder.appending(path: name), encoding: .utf8)
    }

    @Test func `each example is a model, and an override changes the model before it`() throws {
        var kinds: [String] = []
        var last: ModelDocument?
        for block in page.matches(of: #/(?ms)^```json (\w+)\n(.*?)^```$/#) {
            var document = try ModelDocument(parsing: JSONText(copying: Array(block.2.utf8)))
            if block.1 == "override" { document = try #require(last).merged(with: document) }
            _ = try ModelReader.read(document)
            last = document
            kinds.append(String(block.1))
        }
        #expect(kinds.count > 5 && Set(kinds) == ["model", "override"])
    }

    @Test func `each word of the schema and of the reader has an anchor, and no other word has one`() throws {
        let anchors = page.matches(of: #/<a id="(\w+)"></a>`([$\w]+)`/#)
        for anchor in anchors {
            #expect(String(anchor.1) == anchor.2.lowercased().replacing("$", with: ""))
        }
        let words = anchors.map { String($0.2) }
        #expect(words.count == Set(words).count)
        let schema = try JSONSerialization.jsonObject(with: Data(Self.text(of: "model.schema.json").utf8))
        #expect(Set(words) == Self.properties(of: schema))
        let vocabularies: [ModelVocabulary] = [
            .model, .entity, .attribute, .relationship, .mapping, .mappedRelationship, .select, .route,
        ]
        #expect(Set(words) == Set(vocabularies.flatMap(\.fields) + ["description"]))
    }

    @Test(
        arguments: [
            ("/entities/A/attributes/id/scale", "scale"), ("/entities/A/relationships/b/deleteRule", "deleterule"),
            ("/entities//identityOptional", "identityoptional"), ("/entities/A/unique/0", "unique"),
            ("/keyStyle", "keystyle"), ("/entities/A/attributes/id", "type"), ("/entities/A/idetity", "entities"),
            ("/entities/A/relationships/b/tomany", "relationships"), ("/entities/A", "entities"), ("/keystyle", nil),
            ("", nil),
        ] as [(String, String?)])
    func `a fault of a word names its anchor`(pointer: String, anchor: String?) {
        let fault = ModelFault("wrong", at: ModelPlace(pointer: pointer, line: 1, column: 1))
        #expect(fault.page == anchor.map { "protocol/models.md#\($0)" })
    }

    /// The names of the properties that a JSON schema describes, at any depth.
    private static func properties(of schema: Any) -> Set<String> {
        if let elements = schema as? [Any] { return Set(elements.flatMap { properties(of: $0) }) }
        guard let members = schema as? [String: Any] else { return [] }
        let own = (members["properties"] as? [String: Any]).map { Set($0.keys) } ?? []
        return members.values.reduce(own) { $0.union(properties(of: $1)) }
    }
}
