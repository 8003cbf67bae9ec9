import Foundation
import TestSupport
import Testing

/// The memory of a server that sends streams.
@Suite(.timeLimit(.minutes(5))) struct StreamMemoryTests {
    private static let count = 40_000
    private let programs: Programs
    private let process: Process

    init() throws {
        programs = try Programs()
        process = try programs.startServer()
        let client = try RawClient(programs.path("broker.sock"))
        // 42 MB of objects, of texts that LZ4 cannot compress to much less.
        var generator = SeededGenerator(seed: 3)
        let texts = (0..<500).map { _ in
            (0..<80).map { _ in String(generator.next(), radix: 36) }.joined()
        }
        for start in stride(from: 0, to: Self.count, by: 10_000) {
            let records = (start..<start + 10_000).map { #"{"id": \#($0), "name": "\#($0)\#(texts[$0 % 500])"}"# }
            let answer = try client.ask(#"{"entity": "Employee", "json": [\#(records.joined(separator: ","))]}"#)
            #expect(answer.type == "completed")
        }
    }

    /// A line of /proc/PID/status, in bytes.
    private func bytes(_ name: String) throws -> Int {
        let status = try String(contentsOfFile: "/proc/\(process.processIdentifier)/status", encoding: .utf8)
        let line = try #require(status.split(separator: "\n").first { $0.hasPrefix(name + ":") })
        return try #require(Int(line.filter(\.isNumber))) << 10
    }

    /// From now on the peak is that of what follows.
    private func resetPeak() throws {
        // proc(5), /proc/pid/clear_refs
        try "5".write(toFile: "/proc/\(process.processIdentifier)/clear_refs", atomically: false, encoding: .utf8)
    }

    private static func count(of byte: UInt8, in text: String) -> Int {
        var text = text
        return text.withUTF8 { bytes in
            var (count, rest) = (0, UnsafeRawBufferPointer(bytes))
            while let base = rest.baseAddress, let found = memchr(base, Int32(byte), rest.count) {
                count += 1
                rest = UnsafeRawBufferPointer(rebasing: rest[(UnsafeRawPointer(found) - base + 1)...])
            }
            return count
        }
    }

    /// Bytes of SQLite's temporary files, which have no name any more.
    private func temporaryBytes() throws -> Int {
        let folder = "/proc/\(process.processIdentifier)/fd"
        return try FileManager.default.contentsOfDirectory(atPath: folder).reduce(0) { sum, name in
            let path = "\(folder)/\(name)"
            // A descriptor that was closed meanwhile has no link.
            let link = (try? FileManager.default.destinationOfSymbolicLink(atPath: path)) ?? ""
            guard link.contains("etilqs") else { return sum }
            var file = stat()
            return stat(path, &file) == 0 ? sum + Int(file.st_size) : sum
        }
    }

    @Test func `sorted streams that are not read hold neither memory nor temporary files`() throws {
        let client = try RawClient(programs.path("broker.sock"))
        try resetPeak()
        let before = try bytes("VmRSS")
        let slow = try (0..<4).map { _ in try RawClient(programs.path("broker.sock")) }
        for client in slow {
            try client.send(#"{"type": "fetch", "entity": "Employee", "sort": ["-name"], "stream": true}"#)
            #expect(try client.next()["more"] == "true")
        }
        #expect(try temporaryBytes() < 1 << 20)
        let more = try bytes("VmHWM") - before
        #expect(more < 48 << 20, "\(more) bytes more")
        #expect(try client.ask(#"{"type": "ping"}"#).type == "pong")
    }

    @Test func `a stream of 40 MB of objects, and streams that are not read, take little memory`() throws {
        let client = try RawClient(programs.path("broker.sock"))
        try resetPeak()
        let before = try bytes("VmRSS")
        try client.send(#"{"type": "fetch", "entity": "Employee", "stream": true, "tag": 1}"#)
        var (objects, contentBytes, frames) = (0, 0, 0)
        var message: Message
        repeat {
            message = try client.next()
            #expect(message.type == "objects")
            // Each object has one.
            objects += Self.count(of: UInt8(ascii: "{"), in: message.text) - 1
            contentBytes += message.text.utf8.count
            frames += 1
        } while message["more"] == "true"
        #expect(objects == Self.count)
        #expect(contentBytes > 38 << 20)
        #expect(frames > 38)
        let one = try bytes("VmHWM") - before
        #expect(one < 20 << 20, "\(one) bytes more")
        // Their transactions and frames stay until the server ends them.
        let slow = try (0..<20).map { _ in try RawClient(programs.path("broker.sock")) }
        for client in slow {
            for _ in 0..<3 { try client.send(#"{"type": "fetch", "entity": "Employee", "stream": true}"#) }
        }
        for number in 0..<200 {
            let answer = try client.ask(#"{"type": "fetch", "entity": "Employee", "object": \#(number)}"#)
            #expect(answer["objects.0.id"] == "\(number)")
        }
        let many = try bytes("VmHWM") - before
        #expect(many < 48 << 20, "\(many) bytes more")
        withExtendedLifetime(slow) {}
    }
}
