internal import BrokerCommandLine
internal import FlyingFox
internal import FlyingSocks
internal import Foundation
internal import Glibc

/// A server of pages on one address, on FlyingFox.
struct HTTPService: Sendable {
    private static let largestForm = 64 << 10

    private let server: HTTPServer
    private let address: ListenAddress

    /// - Parameter answer: to each request.
    init(_ address: ListenAddress, _ answer: @escaping @Sendable (Request) async -> Answer) throws {
        self.address = address
        let handler = ClosureHTTPHandler { request in
            guard let read = try await Self.read(request) else {
                return Self.response(.text("Bad request.\n", status: 400))
            }
            return Self.response(await answer(read))
        }
        server = HTTPServer(config: try address.configuration(), handler: handler)
    }

    /// Serves until the task is cancelled.
    ///
    /// - Parameter whenReady: called with the authority of the pages' addresses.
    func run(_ whenReady: @escaping @Sendable (_ authority: String) async throws -> Void) async throws {
        // No other user may connect to a Unix socket; pages' own files are none.
        let mask: mode_t?
        if case .unix(let path) = address {
            try Self.removeUnused(path)
            mask = umask(0o177)
        } else {
            mask = nil
        }
        defer { if case .unix(let path) = address { unlink(path) } }
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                do {
                    try await server.run()
                } catch let error as SocketError {
                    throw CommandFailure("Nothing can be served there: \(error.localizedDescription)")
                }
            }
            group.addTask {
                defer { if let mask { umask(mask) } }
                try await server.waitUntilListening()
                if let mask { umask(mask) }
                try await whenReady(address.authority(server.listeningAddress))
                // The server ends the group.
                try await Task.sleep(for: .seconds(Int32.max))
            }
            defer { group.cancelAll() }
            try await group.next()
        }
    }

    /// Removes the file of a Unix socket on which nothing listens.
    private static func removeUnused(_ path: String) throws {
        var status = stat()
        guard lstat(path, &status) == 0 else { return }
        guard status.st_mode & S_IFMT == S_IFSOCK else {
            throw CommandFailure("\(path) is there, and is no socket.")
        }
        let probe = try Socket(domain: AF_UNIX)
        defer { try? probe.close() }
        do {
            try probe.connect(to: sockaddr_un.unix(path: path))
        } catch {
            unlink(path)
            return
        }
        throw CommandFailure("Another process listens on \(path).")
    }

    /// Nil for one that is not encoded right, or too large.
    private static func read(_ request: HTTPRequest) async throws -> Request? {
        guard let path = URLText.path(request.target.path()), let query = URLText.form(request.target.query()) else {
            return nil
        }
        var read = Request(method: Request.Method(rawValue: request.method.rawValue), path: path, query: query)
        read.host = request.headers[.host]
        read.origin = request.headers[HTTPHeader("Origin")]
        read.fetchSite = request.headers[HTTPHeader("Sec-Fetch-Site")]
        read.cookies = request.headers[.cookie]
        guard let count = request.bodySequence.count, count <= largestForm else { return nil }
        if read.method == .post {
            guard let form = URLText.form(String(decoding: try await request.bodyData, as: UTF8.self)) else {
                return nil
            }
            read.form = form
        }
        return read
    }

    private static func response(_ answer: Answer) -> HTTPResponse {
        var headers = HTTPHeaders()
        headers[.contentType] = answer.contentType
        for header in answer.headers { headers[HTTPHeader(header.name)] = header.value }
        // Nobody reads the phrase.
        let status = HTTPStatusCode(answer.status, phrase: answer.status < 400 ? "OK" : "Error")
        switch answer.body {
        case .bytes(let bytes): return HTTPResponse(statusCode: status, headers: headers, body: Data(bytes))
        case .stream(let parts):
            return HTTPResponse(
                statusCode: status, headers: headers, body: HTTPBodySequence(from: PartSequence(parts: parts)))
        }
    }
}

/// Parts of a body, each sent when it comes.
private struct PartSequence: AsyncBufferedSequence {
    typealias Element = UInt8

    let parts: AsyncThrowingStream<[UInt8], any Error>

    func makeAsyncIterator() -> Iterator { Iterator(parts: parts.makeAsyncIterator()) }

    struct Iterator: AsyncBufferedIteratorProtocol {
        var parts: AsyncThrowingStream<[UInt8], any Error>.Iterator

        /// FlyingFox reads whole parts alone.
        mutating func next() async throws -> UInt8? { nil }

        mutating func nextBuffer(suggested: Int) async throws -> [UInt8]? { try await parts.next() }
    }
}
