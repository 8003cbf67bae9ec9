import Foundation
import Testing

/// The schema of the server's messages, as clients check answers with it.
@Suite(.timeLimit(.minutes(5))) struct SchemaCodesTests {
    /// A member of the schema by its path.
    private func member(_ path: [String]) throws -> [String: Any] {
        let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let data = try Data(contentsOf: folder.appending(path: "protocol/server-messages.schema.json"))
        var member = try #require(try JSONSerialization.jsonObject(with: data) as? [String: Any])
        for name in path { member = try #require(member[name] as? [String: Any], "\(name)") }
        return member
    }

    @Test(arguments: [["$defs", "code"], ["$defs", "warning", "properties", "code"]])
    func `a code of a later server is valid, so a schema lists the known ones as examples only`(_ path: [String]) throws
    {
        let code = try member(path)
        #expect(code["type"] as? String == "string")
        #expect((code["examples"] as? [String])?.isEmpty == false)
        #expect(Set(code.keys) == ["type", "examples", "description"])
    }
}
