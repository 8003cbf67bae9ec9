import BrokerStore
import BrokerWire
import Foundation
import Glibc
import NIOCore
import TestSupport
import Testing

@testable import BrokerServer

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
            for _ in 0..<100_000 where running.server.connectionCount > 2 {
                _ = try served[0].ask(#"{"type": "ping"}"#)
            }
            #expect(running.server.connectionCount == 2)
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
            for _ in 0..<100_000 where running.server.connectionCount > 1 { _ = try other.ask(#"{"type": "ping"}"#) }
            #expect(running.server.connectionCount == 1)
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

/// The users that may reach a server, and the users that it serves.
@Suite(.timeLimit(.minutes(5))) struct AccessTests {
    private let folder = TemporaryFolder()

    /// A server's options that allow the user 0 and the group 70 only.
    private var options: ServerOptions {
        var options = ServerOptions(socketPath: nil)
        options.allowedUsers = [0: .write, 9: .read]
        options.allowedGroups = [70: .insert, 71: .write, 72: .read]
        return options
    }

    private func peer(user: UInt32, group: UInt32, _ supplementaryGroups: [UInt32] = []) throws -> Peer {
        var pair: [Int32] = [-1, -1]
        try #require(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &pair) == 0)
        defer { for descriptor in pair { close(descriptor) } }
        var peer = try Peer(descriptor: pair[0], wantsGroups: false)
        #expect(peer.supplementaryGroups.isEmpty)
        peer.credentials.user = user
        peer.credentials.group = group
        peer.supplementaryGroups = supplementaryGroups
        return peer
    }

    @Test func `a peer has the highest role of its user and its groups`() throws {
        #expect(try options.role(of: peer(user: 0, group: 1)) == .write)
        #expect(try options.role(of: peer(user: 5, group: 70)) == .insert)
        #expect(try options.role(of: peer(user: 5, group: 1, [2, 70, 3])) == .insert)
        #expect(try options.role(of: peer(user: 5, group: 72, [2, 71, 70])) == .write)
        #expect(try options.role(of: peer(user: 9, group: 1)) == .read)
        #expect(try options.role(of: peer(user: 9, group: 1, [70])) == .insert)
        let refused = try peer(user: 70, group: 1, [0, 2])
        #expect(options.role(of: refused) == nil)
        let refusal = ServerOptions.refusal(of: refused.credentials)
        #expect(refusal.code == .unauthorized)
        for word in ["id 70", "--allow-user 70", "--allow-group", "(1, for one)"] {
            #expect(refusal.message.contains(word), "\(refusal.message)")
        }
    }

    @Test func `the groups of a peer are its process's own`() throws {
        var pair: [Int32] = [-1, -1]
        try #require(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &pair) == 0)
        defer { for descriptor in pair { close(descriptor) } }
        let peer = try Peer(descriptor: pair[0], wantsGroups: true)
        var own = [gid_t](repeating: .max, count: 1 << 16)
        let count = getgroups(Int32(own.count), &own)
        try #require(count >= 0)
        #expect(peer.supplementaryGroups.sorted() == own.prefix(Int(count)).sorted())
        #expect(peer.credentials.user == geteuid())
        #expect(peer.credentials.group == getegid())
        #expect(peer.credentials.process == getpid())
    }

    @Test(arguments: [0o600, 0o660, 0o666, 0o777] as [UInt32])
    func `the socket's file has the mode and the group that it is given, whatever the mask`(mode: UInt32) throws {
        let file = SocketFile(path: folder.path("socket"), access: SocketAccess(mode: mode, group: getegid()))
        try file.claim()
        #expect(!FileManager.default.fileExists(atPath: file.path))
        let (descriptor, bound) = try file.bind()
        defer { close(descriptor) }
        var status = stat()
        try #require(lstat(file.path, &status) == 0)
        #expect(status.st_mode & 0o7777 == mode)
        #expect(status.st_gid == getegid())
        bound.remove()
    }

    @Test(.enabled(if: geteuid() == 0, "only root may give files to any group"))
    func `the socket's file goes to a group that the server is not in when it is root`() throws {
        let file = SocketFile(path: folder.path("socket"), access: SocketAccess(group: 4_242))
        let (descriptor, bound) = try file.bind()
        defer { close(descriptor) }
        var status = stat()
        try #require(lstat(file.path, &status) == 0)
        #expect(status.st_gid == 4_242)
        bound.remove()
    }

    @Test(.enabled(if: geteuid() != 0, "root may give files to any group"))
    func `a group that the server is not in is reported, and no socket stays`() throws {
        let file = SocketFile(path: folder.path("socket"), access: SocketAccess(group: 4_242))
        let error = #expect(throws: ServerError.self) { try file.claim() }
        #expect(error?.message.contains("--socket-group") == true, "\(error as Any)")
        #expect(!FileManager.default.fileExists(atPath: file.path))
    }

    @Test func `a server that allows groups still serves its own user`() async throws {
        try await RunningServer.run {
            $0.allowedGroups = [4_242: .write]
            $0.socketAccess.mode = 0o666
        } _: { running in
            let client = try running.connect()
            try client.send(#"{"type": "ping"}"#)
            #expect(try client.next().type == "pong")
        }
    }

    @Test(.enabled(if: geteuid() != 0, "root is always served"))
    func `a user who is not allowed is refused, whatever the mode`()
        async throws
    {
        try await RunningServer.run {
            $0.allowedUsers = [:]
            $0.allowedGroups = [4_242: .write]
            $0.socketAccess.mode = 0o666
        } _: { running in
            let client = try running.connect()
            let refusal = try client.next()
            #expect(refusal.code == "unauthorized")
            #expect(try client.receive() == nil)
        }
    }
}

/// The messages that a client of each role may send.
@Suite(.timeLimit(.minutes(5))) struct ClientRoleTests {
    private static let model = """
        {"entities": {
          "Order": {"identity": "id", "tombstone": "gone == YES",
            "attributes": {"id": "integer64", "gone": "boolean"},
            "relationships": {"lines": {"entity": "Line", "toMany": true, "owned": true}}},
          "Line": {"attributes": {"text": "string"}}
        }}
        """

    private func run(_ role: ClientRole, _ body: (RawClient) throws -> Void) async throws {
        try await RunningServer.run(model: Self.model, { $0.allowedUsers = [geteuid(): role] }) { running in
            try body(try running.connect())
        }
    }

    @Test func `a reader may fetch and ask, and send no job`() async throws {
        try await run(.read) { client in
            #expect(try client.ask(#"{"type": "hello"}"#)["role"] == "read")
            for change in [#"{"entity": "Order", "json": {"id": 1}, "id": "a"}"#, #"{"type": "cancel", "id": "a"}"#] {
                let answer = try client.ask(change)
                #expect(answer.type == "error" && answer.code == "unauthorized" && answer["id"] == "a")
            }
            #expect(try client.ask(#"{"type": "fetch", "entity": "Order"}"#).type == "objects")
            #expect(try client.ask(#"{"type": "bookmark", "name": "a"}"#)["value"] == "null")
            #expect(try client.ask(#"{"type": "subscribe"}"#).type == "subscribed")
            #expect(try client.ask(#"{"type": "await", "id": "a"}"#).code == "unknownJob")
            for type in ["ping", "stats", "model"] { #expect(try client.ask(#"{"type": "\#(type)"}"#).type != "error") }
        }
    }

    @Test func `an inserter's job that deletes an object fails, and replaced parts are none`() async throws {
        try await run(.insert) { client in
            func job(_ fields: String) throws -> String {
                let answer = try client.ask("{\(fields)}")
                return answer.type == "failed" ? answer.code : answer.type
            }
            let order = #""entity": "Order", "json": "#
            #expect(
                try job(
                    order
                        + #"[{"id": 1, "lines": [{"text": "a"}, {"text": "b"}]}, {"id": 2}], "bookmark": {"name": "a", "value": "1"}"#
                ) == "completed")
            #expect(try job(order + #"{"id": 1, "lines": [{"text": "c"}]}"#) == "completed")
            #expect(try job(#""op": "sync", "# + order + #"[{"id": 1}, {"id": 2}]"#) == "completed")
            #expect(try job(#""op": "sync", "# + order + #"[{"id": 1}]"#) == "unauthorized")
            #expect(try job(#""op": "delete", "entity": "Order", "objects": [2]"#) == "unauthorized")
            #expect(try job(#""op": "delete", "entity": "Order", "objects": [9]"#) == "completed")
            #expect(try job(order + #"{"id": 2, "gone": true}"#) == "unauthorized")
            #expect(
                try job(#""op": "delete", "entity": "Line", "objects": [{"parent_id": 1, "position": 0}]"#)
                    == "unauthorized")
            let fetched = try client.ask(#"{"type": "fetch", "entity": "Order", "include": ["lines"]}"#)
            #expect(fetched["objects.0.lines.0.text"] == "c" && fetched["objects.1.id"] == "2")
        }
    }
}
