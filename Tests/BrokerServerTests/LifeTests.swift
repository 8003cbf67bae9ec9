@testable import BrokerServer
import BrokerStore
import Foundation
import NIOCore
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(5))) struct LifeTests {
    @Test func `a stopped server has finished its accepted jobs and leaves no socket and no WAL`() async throws {
        let running = try await RunningServer()
        let client = try running.connect()
        for number in 1...100 {
            try client.send(#"{"id": "\#(number)", "entity": "Department", "json": {"id": \#(number)}}"#)
        }
        // The last of them is admitted once an answer to a later message comes.
        try client.send(#"{"type": "ping"}"#)
        var completed = 0
        while try client.next().type == "completed" { completed += 1 }
        try await running.server.stop()
        while let message = try client.receive() {
            #expect(message.type == "completed")
            completed += 1
        }
        #expect(completed == 100)
        #expect(try FileManager.default.contentsOfDirectory(atPath: running.folder).sorted() == ["store.sqlite"])
        try FileManager.default.removeItem(atPath: running.folder)
    }

    @Test func `a socket in use is refused with its process`() async throws {
        try await RunningServer.run { running in
            #expect {
                try BrokerServer.claimSocket(running.socketPath)
            } throws: { error in
                "\(error)".contains("process \(ProcessInfo.processInfo.processIdentifier)")
            }
        }
    }

    @Test func `a file that is no socket is left alone`() throws {
        let path = NSTemporaryDirectory() + "broker-" + UUID().uuidString
        try Data("mine".utf8).write(to: URL(fileURLWithPath: path))
        defer { unlink(path) }
        #expect(throws: ServerError.self) { try BrokerServer.claimSocket(path) }
        #expect(try String(contentsOfFile: path, encoding: .utf8) == "mine")
    }

    @Test func `a stale socket file is replaced`() async throws {
        let path = NSTemporaryDirectory() + "broker-" + UUID().uuidString
        close(try Self.bind(path, SOCK_STREAM))
        try BrokerServer.claimSocket(path)
        #expect(!FileManager.default.fileExists(atPath: path))
    }

    @Test(arguments: [SOCK_DGRAM, SOCK_SEQPACKET])
    func `a live socket of another kind is left alone`(kind: __socket_type) throws {
        let path = NSTemporaryDirectory() + "broker-" + UUID().uuidString
        let descriptor = try Self.bind(path, kind)
        defer {
            close(descriptor)
            unlink(path)
        }
        if kind == SOCK_SEQPACKET { listen(descriptor, 1) }
        #expect {
            try BrokerServer.claimSocket(path)
        } throws: { error in
            "\(error)".contains("another kind")
        }
        #expect(FileManager.default.fileExists(atPath: path))
    }

    @Test(arguments: ["", "/nowhere/at/all/broker.sock", "/proc/broker.sock", String(repeating: "x", count: 108)])
    func `a socket that cannot be created is reported before any file changes`(path: String) {
        #expect(throws: ServerError.self) { try BrokerServer.claimSocket(path) }
    }

    @Test func `a socket file that is another's by now stays`() async throws {
        let running = try await RunningServer()
        unlink(running.socketPath)
        let other = try Self.bind(running.socketPath, SOCK_STREAM)
        defer { close(other) }
        try await running.server.stop()
        #expect(FileManager.default.fileExists(atPath: running.socketPath))
        try FileManager.default.removeItem(atPath: running.folder)
    }

    /// A socket of that kind with that file.
    private static func bind(_ path: String, _ kind: __socket_type) throws -> Int32 {
        let descriptor = socket(AF_UNIX, Int32(kind.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        try #require(result == 0)
        return descriptor
    }

    @Test func `the socket is not open to others`() async throws {
        try await RunningServer.run { running in
            let attributes = try FileManager.default.attributesOfItem(atPath: running.socketPath)
            #expect(attributes[.posixPermissions] as? Int == 0o660)
        }
    }

    @Test func `a user who is not allowed gets an error`() async throws {
        try await RunningServer.run({ $0.allowedUsers = [4_000_000_000: .write] }) { running in
            let error = try running.connect().next()
            #expect(error.code == "unauthorized")
            #expect(error["error.message"]?.contains("--allow-user") == true)
        }
    }

    @Test func `a connection over the limit gets the advice to retry`() async throws {
        try await RunningServer.run({ $0.connections = 2 }) { running in
            let clients = try (0..<2).map { _ in try running.connect() }
            for client in clients { #expect(try client.ask(#"{"type": "ping"}"#).type == "pong") }
            let third = try running.connect()
            let busy = try third.next()
            #expect(busy.code == "busy")
            #expect(busy["error.retryAfterMilliseconds"] != nil)
            #expect(try third.receive() == nil)
        }
    }

    @Test func `refused clients take no place, and are closed though they keep their end open`() async throws {
        try await RunningServer.run({
            $0.connections = 2
            $0.linger = .milliseconds(50)
        }) { running in
            var served = try (0..<2).map { _ in try running.connect() }
            for client in served { #expect(try client.ask(#"{"type": "ping"}"#).type == "pong") }
            let refused = try (0..<100).map { _ in try running.connect() }
            for client in refused {
                #expect(try client.next().code == "busy")
                #expect(try client.receive() == nil)
            }
            for _ in 0..<100_000 where running.server.handlerCount > 2 { _ = try served[0].ask(#"{"type": "ping"}"#) }
            #expect(running.server.handlerCount == 2)
            served.removeLast()
            // The end of the one that has gone is seen before long.
            var answer = try running.connect().ask(#"{"type": "ping"}"#)
            while answer.code == "busy" { answer = try running.connect().ask(#"{"type": "ping"}"#) }
            #expect(answer.type == "pong")
            withExtendedLifetime(refused) {}
        }
    }

    @Test func `a client whose frame ended its connection is closed, though it keeps its end open`() async throws {
        try await RunningServer.run({ $0.linger = .milliseconds(50) }) { running in
            let bad = try running.connect()
            try bad.send(bytes: Array("nonsense".utf8))
            #expect(try bad.next().code == "malformedFrame")
            #expect(try bad.receive() == nil)
            let other = try running.connect()
            // From here on the other connection counts, too.
            _ = try other.ask(#"{"type": "ping"}"#)
            for _ in 0..<100_000 where running.server.handlerCount > 1 { _ = try other.ask(#"{"type": "ping"}"#) }
            #expect(running.server.handlerCount == 1)
            withExtendedLifetime(bad) {}
        }
    }

    @Test func `a server that stops does not wait for a client that keeps sending`() async throws {
        let running = try await RunningServer()
        let client = try running.connect()
        let sender = Thread {
            // Until the server has closed.
            do {
                for number in 0... {
                    try client.send(#"{"notify": [], "entity": "Department", "json": {"id": \#(number % 100)}}"#)
                }
            } catch {}
        }
        sender.start()
        let other = try running.connect()
        while try other.ask(#"{"type": "stats"}"#)["jobs.completed"] == "0" {}
        try await running.server.stop()
        try FileManager.default.removeItem(atPath: running.folder)
    }

    @Test func `a server that stops lets a slow client take its answers`() async throws {
        let running = try await RunningServer()
        let client = try running.connect()
        for number in 0..<10 {
            let records = (0..<8_000).map { #"{"id": \#($0 * 7_919 % 1_000_003), "name": "\#(number)"}"# }
                .joined(separator: ",")
            try client.send(#"{"id": "\#(number)", "reply": "keys", "entity": "Department", "json": [\#(records)]}"#)
        }
        let other = try running.connect()
        while try other.ask(#"{"type": "stats"}"#)["jobs.completed"] != "10" {}
        async let stopped: Void = running.server.stop()
        while running.log.line(.notice, "Stopping") == nil { await Task.yield() }
        let answers = try await offThePool {
            var answers: [String?] = []
            while let answer = try client.receive() { answers.append(answer["id"]) }
            return answers
        }
        #expect(answers == (0..<10).map { "\($0)" })
        try await stopped
        try FileManager.default.removeItem(atPath: running.folder)
    }

    @Test func `a server that stops waits for those who take nothing only so long`() async throws {
        let running = try await RunningServer { $0.drainSeconds = 1 }
        let client = try running.connect()
        for number in 0..<4 {
            let records = (0..<20_000).map { #"{"id": \#($0 * 7_919 % 1_000_003), "name": "\#(number)"}"# }
                .joined(separator: ",")
            try client.send(#"{"id": "\#(number)", "reply": "keys", "entity": "Department", "json": [\#(records)]}"#)
        }
        try await running.server.stop()
        #expect(running.log.line(.warning, "within 1 s of the stop") != nil)
        try FileManager.default.removeItem(atPath: running.folder)
    }

    @Test func `starts, stops and the faults of clients are logged`() async throws {
        let running = try await RunningServer { $0.linger = .milliseconds(50) }
        #expect(running.log.line(.notice, "Serving")?.contains(running.socketPath) == true)
        let client = try running.connect()
        #expect(try client.ask(#"{"id": "bad", "entity": "Employee", "json": {"id": 1}}"#).type == "failed")
        #expect(running.log.line(.notice, "job failed")?.contains("id=bad") == true)
        _ = try client.ask(#"{"type": "nonsense"}"#)
        #expect(running.log.line(.info, "not understood")?.contains("nonsense") == true)
        for _ in 0..<30 {
            let bad = try running.connect()
            try bad.send(bytes: Array("nonsense".utf8))
            #expect(try bad.next().code == "malformedFrame")
        }
        let lines = running.log.lines.filter { $0.hasPrefix("notice A connection was ended") }
        #expect(lines.count == 10, "a client cannot fill the log")
        #expect(lines.first?.contains("process=\(getpid())") == true)
        try await running.server.stop()
        #expect(running.log.line(.notice, "Stopping") != nil)
        #expect(running.log.line(.notice, "Stopped") != nil)
        try FileManager.default.removeItem(atPath: running.folder)
    }

    @Test func `a refused user is in the log`() async throws {
        try await RunningServer.run({ $0.allowedUsers = [4_000_000_000: .write] }) { running in
            let error = try running.connect().next()
            #expect(error.code == "unauthorized")
            #expect(running.log.line(.warning, "refused")?.contains("user=\(geteuid())") == true)
        }
    }
}
