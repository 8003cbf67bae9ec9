import Foundation
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
