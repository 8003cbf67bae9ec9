import BrokerServer
import BrokerStore
import Foundation
import Testing

@Suite(.timeLimit(.minutes(5))) struct LifeTests {
    @Test func `a stopped server has finished what it accepted and leaves no socket and no log behind`() async throws {
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

    @Test func `a socket that somebody listens on is refused with who has it`() async throws {
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
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let bound = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        #expect(bound == 0)
        close(descriptor)
        try BrokerServer.claimSocket(path)
        #expect(!FileManager.default.fileExists(atPath: path))
    }

    @Test func `the socket is not open to others`() async throws {
        try await RunningServer.run { running in
            let attributes = try FileManager.default.attributesOfItem(atPath: running.socketPath)
            #expect(attributes[.posixPermissions] as? Int == 0o660)
        }
    }

    @Test func `a user who is not allowed is told so`() async throws {
        try await RunningServer.run({ $0.allowedUsers = [4_000_000_000] }) { running in
            let error = try running.connect().next()
            #expect(error.code == "unauthorized")
            #expect(error["error.message"]?.contains("--allow-user") == true)
        }
    }

    @Test func `a connection over the limit is told to come again`() async throws {
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
}
