import Synchronization

/// Pages with an `ETag` each, which a test changes: `/1` names `/2` as the next one, if that is there.
final class VersionedPages: Sendable {
    let bodies = Mutex<[String: String]>([:])

    @Sendable func answer(_ request: PageServer.Request) -> String {
        let (body, hasNext) = bodies.withLock { ($0[request.target], request.target == "/1" && $0["/2"] != nil) }
        guard let body else { return PageServer.response(404) }
        let etag = "\"\(body.hashValue)\""
        let fields =
            ["ETag: \(etag)", "Content-Type: application/json"] + (hasNext ? [#"Link: </2>; rel="next""#] : [])
        if request.fields["if-none-match"] == etag { return PageServer.response(304, fields) }
        return PageServer.response(200, fields, body)
    }

    func put(_ body: String, at target: String) { bodies.withLock { $0[target] = body } }
}
