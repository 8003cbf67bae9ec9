import TestSupport
import Testing

/// The messages about bookmarks.
@Suite(.timeLimit(.minutes(5)), .session) struct BookmarkTests {
    private let session = OperationSession.current

    private static let job = #""entity": "Tag", "json": {"word": "x"}"#

    private func ask(_ session: OperationSession, _ name: String) throws -> String {
        let answer = try session.client.ask(#"{"type": "bookmark", "name": "\#(name)", "tag": 7}"#)
        #expect(answer.type == "bookmark" && answer["name"] == name && answer["tag"] == "7")
        return "\(answer["value"] ?? "missing") \(answer["sequence"] ?? "missing")"
    }

    @Test func `a bookmark is returned with the job that wrote it, to a client that has sent the job before`()
        async throws
    {
        #expect(try session.client.ask(#"{"type": "hello"}"#)["features.2"] == "bookmark")
        #expect(try ask(session, "feed") == "null missing")
        try session.client.send(#"{\#(Self.job), "notify": [], "bookmark": {"name": "feed", "value": "W/\"1\""}}"#)
        #expect(try ask(session, "feed") == #"W/"1" 1"#)
        let deletion = #"{\#(Self.job), "bookmark": {"name": "feed", "value": null}}"#
        #expect(try session.client.ask(deletion)["changes.Tag.unchanged"] == "1")
        #expect(try ask(session, "feed") == "null missing")
    }

    @Test func `another bookmark under a committed id is a conflict, and the same one a duplicate`() throws {
        func send(_ bookmark: String) throws -> String {
            let answer = try session.client.ask(#"{"id": "a", \#(Self.job)\#(bookmark)}"#)
            return answer.type == "completed" ? "duplicate \(answer["duplicate"] ?? "")" : answer.code
        }
        let one = #", "bookmark": {"name": "feed", "value": ""}"#
        let ends = try [send(one), send(one)]
        #expect(ends == ["duplicate false", "duplicate true"])
        for other in [
            "", #", "bookmark": {"name": "feed", "value": null}"#, #", "bookmark": {"name": "feed", "value": "2"}"#,
            #", "bookmark": {"name": "food", "value": ""}"#,
        ] { #expect(try send(other) == "idConflict") }
        #expect(try ask(session, "feed") == " 1")
    }
}
