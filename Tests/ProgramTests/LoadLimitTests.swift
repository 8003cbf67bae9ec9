import Foundation
import Glibc
import Synchronization
import TestSupport
import Testing

/// `broker load` against a hostile HTTP server.
@Suite(.timeLimit(.minutes(5))) struct LoadLimitTests {
    private let programs: Programs
    private static let store = [
        "load", "--store", "s.sqlite", "--model", "model.json", "--entity", "Employee", "--retries", "0",
    ]

    init() throws { programs = try Programs() }

    private func load(_ arguments: [String]) throws -> Programs.Result {
        try programs.run("broker", Self.store + arguments)
    }

    /// Endless, packed by gzip: nothing but blanks in many times fewer bytes.
    private static let endlessBlanks = packed(Data(repeating: 0x20, count: 4 << 20))

    private static func packed(_ bytes: Data) -> [UInt8] {
        let (process, input, output) = (Process(), Pipe(), Pipe())
        process.executableURL = URL(fileURLWithPath: "/bin/gzip")
        process.standardInput = input
        process.standardOutput = output
        try? process.run()
        DispatchQueue.global().async {
            try? input.fileHandleForWriting.write(contentsOf: bytes)
            try? input.fileHandleForWriting.close()
        }
        return Array(output.fileHandleForReading.readDataToEndOfFile())
    }

    private static let blanks = [UInt8](repeating: 0x20, count: 64 << 10)

    @Test(arguments: ["", "Content-Encoding: gzip", "Content-Type: application/gzip"])
    func `an endless body ends at --max-bytes, packed or not`(field: String) throws {
        let isFile = field.hasPrefix("Content-Type")
        let isEncoded = field.hasPrefix("Content-Encoding")
        let rest = isFile ? Self.endlessBlanks : isEncoded ? Self.storedBlanks : Self.blanks
        let sent = Mutex(0)
        let server = try PageServer(rest: { _ in
            let count = sent.withLock { sent in
                sent += 1
                return sent
            }
            if isEncoded, count == 1 { return Self.gzipHeader }
            // A gzip file of several members, which is whole.
            return isFile && count > 8 ? [] : rest
        }) { _ in
            (["HTTP/1.1 200 X", "Connection: close"] + (field.isEmpty ? [] : [field]) + ["", ""]).joined(
                separator: "\r\n")
        }
        defer { server.stop() }
        let result = try load(["--max-bytes", "8MiB", server.url("/a")])
        #expect(result.status == 1 && result.complaints.contains("--max-bytes allows more"), "\(result)")
        // Beside those that the sockets hold.
        #expect(sent.withLock { $0 } < 1_024, "64 MiB")
    }

    /// The beginning of a gzip member, and a stored block (RFC 1951, section 3.2.4) of blanks.
    private static let gzipHeader: [UInt8] = [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 3]
    private static let storedBlanks = [0, 0xFF, 0xFF, 0, 0] + [UInt8](repeating: 0x20, count: 0xFFFF)

    @Test func `packed bytes count, also when they are nothing unpacked`() throws {
        // Empty stored blocks after the header of a gzip member.
        let blocks = [UInt8](repeating: 0, count: 13_000).indices.map { [0, 0, 0, 0xFF, 0xFF][$0 % 5] as UInt8 }
        let hasBegun = Mutex(false)
        let server = try PageServer(rest: { _ in
            hasBegun.withLock { hasBegun in
                defer { hasBegun = true }
                return hasBegun ? blocks : Self.gzipHeader
            }
        }) { _ in "HTTP/1.1 200 X\r\nConnection: close\r\nContent-Encoding: gzip\r\n\r\n" }
        defer { server.stop() }
        let result = try load(["--max-bytes", "1MiB", server.url("/a")])
        #expect(result.status == 1 && result.complaints.contains("has more than 1048576 bytes"), "\(result)")
    }

    @Test(arguments: [
        "9223372036854775807", "9223372036854775808", "99999999999999999999999999", "-1", "x", "4294967296",
    ])
    func `an absurd Content-Length is an error`(length: String) throws {
        let server = try PageServer { _ in PageServer.response(200, ["Content-Length: \(length)"], "[") }
        defer { server.stop() }
        let result = try load([server.url("/a")])
        #expect(result.status == 1 && result.complaints.contains(server.url("/a")), "\(result)")
    }

    @Test func `a page that comes byte by byte ends by --timeout, and one that stops by --request-timeout`() throws {
        let connection = DispatchSemaphore(value: 0)
        let server = try PageServer(rest: { request in
            // As slow as it can be for --request-timeout: the client's end is waited for, and does not come here.
            _ = connection.wait(timeout: .now() + (request.target == "/slow" ? 0.05 : 60))
            return [0x20]
        }) { _ in "HTTP/1.1 200 X\r\nConnection: close\r\n\r\n[" }
        defer { server.stop() }
        let start = ContinuousClock.now
        let slow = try load(["--timeout", "1s", server.url("/slow")])
        #expect(slow.status == 1 && slow.complaints.contains("--timeout"), "\(slow)")
        let stopped = try load(["--request-timeout", "1s", server.url("/stopped")])
        #expect(stopped.status == 1 && stopped.complaints.contains("--request-timeout"), "\(stopped)")
        #expect(start.duration(to: .now) < .seconds(50))
        connection.signal()
    }

    @Test func `endless header fields end, and an endless body of an error is not read`() throws {
        let server = try PageServer(rest: { request in
            request.target == "/fields" ? Array("A: \(String(repeating: "a", count: 1_000))\r\n".utf8) : Self.blanks
        }) { request in
            "HTTP/1.1 \(request.target == "/fields" ? "200 X" : "404 X\r\nConnection: close\r\n")\r\n"
        }
        defer { server.stop() }
        let fields = try load([server.url("/fields")])
        #expect(fields.status == 1 && fields.complaints.contains("header"), "\(fields)")
        let error = try load([server.url("/error")])
        #expect(error.status == 1 && error.complaints.contains("was answered with status 404"), "\(error)")
    }
}

/// An HTTP server with scripted answers, on a port of this machine. One connection at a time, one request on each.
final class PageServer: Sendable {
    struct Request {
        /// With the query.
        let target: String
        /// By name, in lower case.
        let fields: [String: String]
        let body: String
    }

    private let descriptor: Int32
    let port: UInt16
    private let requests = Mutex<[Request]>([])
    private let answer: @Sendable (Request) -> String
    private let rest: @Sendable (Request) -> [UInt8]

    /// - Parameters:
    ///   - answer: the bytes of the response to a request.
    ///   - rest: more bytes of it, requested again and again until there are none, or the client closes the connection.
    init(
        rest: @escaping @Sendable (Request) -> [UInt8] = { _ in [] }, _ answer: @escaping @Sendable (Request) -> String
    ) throws {
        self.answer = answer
        self.rest = rest
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let (socket, length) = (descriptor, size)
        let isBound = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(socket, $0, length) == 0 && listen(socket, 16) == 0 && getsockname(socket, $0, &size) == 0
            }
        }
        guard isBound else { throw Programs.Failure(what: "no port can be had") }
        port = UInt16(bigEndian: address.sin_port)
        Thread.detachNewThread { [self] in
            // The thread closes what it listens on: closed by another one, its number may already be the next server's.
            defer { close(socket) }
            while true {
                let connection = accept(socket, nil, nil)
                guard connection >= 0 else { return }
                serve(connection)
                close(connection)
            }
        }
    }

    /// Ends the thread, which holds the server.
    func stop() { shutdown(descriptor, Int32(SHUT_RDWR)) }

    func url(_ target: String, host: String = "127.0.0.1") -> String { "http://\(host):\(port)\(target)" }

    /// The requests since the last call.
    func taken() -> [Request] {
        requests.withLock { requests in
            defer { requests = [] }
            return requests
        }
    }

    static func response(_ status: Int = 200, _ fields: [String] = [], _ body: String = "") -> String {
        let length = fields.contains { $0.hasPrefix("Content-Length") } ? [] : ["Content-Length: \(body.utf8.count)"]
        return (["HTTP/1.1 \(status) X", "Connection: close"] + fields + length + ["", body]).joined(separator: "\r\n")
    }

    private func serve(_ connection: Int32) {
        var text = ""
        var buffer = [UInt8](repeating: 0, count: 4_096)
        while !text.contains("\r\n\r\n") {
            let count = recv(connection, &buffer, buffer.count, 0)
            guard count > 0 else { return }
            text += String(decoding: buffer.prefix(count), as: UTF8.self)
        }
        let parts = text.components(separatedBy: "\r\n\r\n")
        let lines = parts[0].components(separatedBy: "\r\n")
        var fields: [String: String] = [:]
        for line in lines.dropFirst() {
            let parts = line.split(separator: ":", maxSplits: 1)
            guard parts.count == 2 else { continue }
            fields[parts[0].lowercased()] = parts[1].trimmingCharacters(in: .whitespaces)
        }
        let words = lines[0].split(separator: " ")
        guard words.count == 3 else { return }
        var body = parts.dropFirst().joined(separator: "\r\n\r\n")
        while body.utf8.count < fields["content-length"].flatMap({ Int($0) }) ?? 0 {
            let count = recv(connection, &buffer, buffer.count, 0)
            guard count > 0 else { return }
            body += String(decoding: buffer.prefix(count), as: UTF8.self)
        }
        let request = Request(target: String(words[1]), fields: fields, body: body)
        requests.withLock { $0.append(request) }
        var bytes = Array(answer(request).utf8)
        while !bytes.isEmpty, send(connection, bytes, bytes.count, Int32(MSG_NOSIGNAL)) > 0 { bytes = rest(request) }
    }
}

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

/// A server that was made before there were `migrate` and bookmarks: it welcomes clients, completes every job, and refuses
/// every action.
final class OldServer: Sendable {
    private let asked = Mutex<[String]>([])
    private let jobs = Mutex<[String?]>([])

    /// The actions that were asked for, and their `dryRun`.
    var actions: [String] { asked.withLock { $0 } }

    /// The bookmarks of the jobs; nil for a job without one.
    var bookmarks: [String?] { jobs.withLock { $0 } }

    /// Listens until the process ends.
    init(_ path: String) throws {
        let listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let bound = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        guard bound == 0, listen(listener, 8) == 0 else { throw Programs.Failure(what: "cannot listen on \(path)") }
        Thread { [self] in
            while true {
                let descriptor = accept(listener, nil, nil)
                guard descriptor >= 0 else { return }
                // A client that ends is the end of its connection.
                try? serve(RawClient(descriptor: descriptor))
            }
        }.start()
    }

    private func serve(_ client: RawClient) throws {
        while let message = try client.receive() {
            let tag = message["tag"].map { ",\"tag\":\($0)" } ?? ""
            if let id = message["id"] {
                jobs.withLock { $0.append(message["bookmark"]) }
                try client.send(#"{"type":"completed","id":"\#(id)","sequence":1\#(tag)}"#)
                continue
            }
            guard message.type == "admin" else {
                try client.send(
                    #"{"type":"welcome","version":1,"server":"broker 0.0","journal":false,"role":"write","features":[],"limits":{"#
                        + #""maximumFrameBytes":16777215,"maximumContentBytes":268435456,"maximumDepth":512,"maximumIdBytes":128,"#
                        + #""maximumTagBytes":1024,"jobMemory":134217728,"jobsInFlight":1024,"outcomesKept":1000,"#
                        + #""outcomesKeptSeconds":604800,"outcomesForgottenThrough":0},"entities":[]\#(tag)}"#)
                continue
            }
            asked.withLock { $0.append("\(message["action"] ?? "") \(message["dryRun"] ?? "")") }
            try client.send(
                #"{"type":"error","error":{"code":"unsupportedMessage","message":"There is no action.","path":"/action"},"#
                    + #""frame":2\#(tag)}"#)
        }
    }
}
