import BrokerCoordinator
import BrokerModel
import BrokerSchema
import BrokerStore
import BrokerWire
import Foundation
import Glibc
import NIOCore
import Synchronization
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
                try SocketFile(path: running.socketPath).claim()
            } throws: { error in
                "\(error)".contains("process \(ProcessInfo.processInfo.processIdentifier)")
            }
        }
    }

    @Test func `a file that is no socket is left alone`() throws {
        let path = NSTemporaryDirectory() + "broker-" + UUID().uuidString
        try Data("mine".utf8).write(to: URL(fileURLWithPath: path))
        defer { unlink(path) }
        #expect(throws: ServerError.self) { try SocketFile(path: path).claim() }
        #expect(try String(contentsOfFile: path, encoding: .utf8) == "mine")
    }

    @Test func `a stale socket file is replaced`() async throws {
        let path = NSTemporaryDirectory() + "broker-" + UUID().uuidString
        close(try Self.bind(path, SOCK_STREAM))
        try SocketFile(path: path).claim()
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
            try SocketFile(path: path).claim()
        } throws: { error in
            "\(error)".contains("may have \(path) open")
        }
        #expect(FileManager.default.fileExists(atPath: path))
    }

    @Test(arguments: ["", "/nowhere/at/all/broker.sock", "/proc/broker.sock", String(repeating: "x", count: 108)])
    func `a socket that cannot be created is reported before any file changes`(path: String) {
        #expect(throws: ServerError.self) { try SocketFile(path: path).claim() }
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
        try await RunningServer.run({ $0.users.allowedUsers = [4_000_000_000: .write] }) { running in
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
        try await RunningServer.run({ $0.users.allowedUsers = [4_000_000_000: .write] }) { running in
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
        options.users.allowedUsers = [0: .write, 9: .read]
        options.users.allowedGroups = [70: .insert, 71: .write, 72: .read]
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
        #expect(try options.users.role(of: peer(user: 0, group: 1)) == .write)
        #expect(try options.users.role(of: peer(user: 5, group: 70)) == .insert)
        #expect(try options.users.role(of: peer(user: 5, group: 1, [2, 70, 3])) == .insert)
        #expect(try options.users.role(of: peer(user: 5, group: 72, [2, 71, 70])) == .write)
        #expect(try options.users.role(of: peer(user: 9, group: 1)) == .read)
        #expect(try options.users.role(of: peer(user: 9, group: 1, [70])) == .insert)
        let refused = try peer(user: 70, group: 1, [0, 2])
        #expect(options.users.role(of: refused) == nil)
        let refusal = UserRules.refusal(of: refused.credentials)
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
            $0.users.allowedGroups = [4_242: .write]
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
            $0.users.allowedUsers = [:]
            $0.users.allowedGroups = [4_242: .write]
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
        try await RunningServer.run(model: Self.model, { $0.users.allowedUsers = [geteuid(): role] }) { running in
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

/// Cancelled jobs, progress and administration, over a socket.
@Suite(.timeLimit(.minutes(5))) struct ControlTests {
    @Test func `a job is cancelled while the server is paused, and the others continue`() async throws {
        try await RunningServer.run { running in
            let client = try running.connect()
            #expect(try client.ask(#"{"type": "admin", "action": "pause", "tag": 1}"#).type == "done")
            for id in ["a", "b"] {
                let accepted = try client.ask(
                    #"{"id": "\#(id)", "entity": "Department", "json": [{"id": 1}], "notify": ["accepted", "completed"]}"#
                )
                #expect(accepted.type == "accepted")
            }
            #expect(try client.ask(#"{"type": "cancel", "id": "a"}"#).type == "cancelled")
            let failed = try #require(try client.receive())
            #expect(failed.type == "failed" && failed.code == "cancelled")
            // The job may end before the answer to its resume is written.
            let resumed = try [client.ask(#"{"type": "admin", "action": "resume"}"#), client.next()]
            #expect(Set(resumed.map(\.type)) == ["done", "completed"])
            #expect(try client.ask(#"{"type": "cancel", "id": "b"}"#).code == "tooLate")
            #expect(try client.ask(#"{"type": "cancel", "id": "c"}"#).code == "unknownJob")
            #expect(try client.ask(#"{"type": "admin", "action": "dance"}"#).code == "unsupportedMessage")
            // A server within another program is that one's to end.
            #expect(try client.ask(#"{"type": "admin", "action": "drain"}"#).code == "unsupportedMessage")
            #expect(try client.ask(#"{"type": "admin", "action": "checkpoint"}"#).type == "done")
        }
    }

    @Test func `the operator sees who is connected and what failed, and ends a connection`() async throws {
        try await RunningServer.run { running in
            let (bad, owner) = (try running.connect(), try running.connect())
            _ = try bad.ask(#"{"type": "hello", "client": "loader 1.2"}"#)
            #expect(try bad.ask(#"{"id": "a", "entity": "Department", "json": [{"id": 1}]}"#).type == "completed")
            #expect(try bad.ask(#"{"id": "b", "entity": "Department", "json": [{"id": "x"}]}"#).type == "failed")
            let all = try owner.ask(#"{"type": "admin", "action": "clients"}"#)
            for (member, value) in [
                ("connection", "1"), ("client", "loader 1.2"), ("user", "\(getuid())"), ("process", "\(getpid())"),
                ("jobs", "2"), ("failed", "1"), ("inFlight", "0"), ("error.code", "invalidValue"),
            ] { #expect(all["clients.0.\(member)"] == value, "\(member) of \(all.text)") }
            for wrong in ["", #", "connection": 1, "user": 0"#, #", "connection": 2"#, #", "user": 4294967294"#] {
                let answer = try owner.ask(#"{"type": "admin", "action": "kick"\#(wrong)}"#)
                #expect(answer.code == "unsupportedMessage", "\(wrong): \(answer.text)")
            }
            let kicked = try owner.ask(#"{"type": "admin", "action": "kick", "connection": 1}"#)
            #expect(kicked["connections"] == "1", "\(kicked.text)")
            #expect(try bad.receive() == nil)
            let rest = try owner.ask(#"{"type": "admin", "action": "clients"}"#)
            #expect(rest["clients.0.connection"] == "2" && rest["clients.1.connection"] == nil, "\(rest.text)")
        }
    }

    @Test func `a client that asks for progress gets it before the end`() async throws {
        try await RunningServer.run { running in
            let client = try running.connect()
            let rows = (1...500).map { "{\"id\": \($0)}" }.joined(separator: ",")
            let progress = try client.ask(
                #"{"id": "a", "entity": "Department", "json": [\#(rows)], "notify": ["progress", "completed"]}"#)
            #expect(progress.type == "progress")
            var next = try #require(try client.receive())
            while next.type == "progress" { next = try #require(try client.receive()) }
            #expect(next.type == "completed")
        }
    }

    @Test func `a client whose last message took the last room is read again when another makes room`() async throws {
        var limits = CoordinatorLimits(workers: 2)
        limits.jobs = 2
        try await RunningServer.run(limits: limits) { running in
            let (client, other, operating) = try (running.connect(), running.connect(), running.connect())
            #expect(try operating.ask(#"{"type": "admin", "action": "pause"}"#).type == "done")
            try other.send(#"{"id": "a", "entity": "Department", "json": {"id": 1}}"#)
            while try operating.ask(#"{"type": "stats"}"#)["jobs.inFlight"] != "1" {}
            try client.send(#"{"id": "b", "entity": "Department", "json": {"id": 2}}"#)
            while try operating.ask(#"{"type": "stats"}"#)["jobs.inFlight"] != "2" {}
            #expect(try operating.ask(#"{"type": "cancel", "id": "a"}"#).type == "cancelled")
            #expect(try client.ask(#"{"type": "ping"}"#).type == "pong")
        }
    }

    @Test func `a migration is passed on as it was asked for, and its changes or its fault are answered`() async throws
    {
        let asked = RecordedMigrations()
        let migrate = { (options: inout ServerOptions) in
            options.migrate = { message, notify in
                asked.add(message)
                guard message.removedParts != .refuse else {
                    return notify(.failure(Fault(.storeUnavailable, "two differences")))
                }
                notify(
                    .success([
                        StoreChange(
                            .dropped, "A.b", "A.b is gone", remedy: "none",
                            loss: StoreLoss(.values, count: 12, examples: ["1: 'x'"]))
                    ]))
            }
        }
        try await RunningServer.run(migrate) { running in
            let client = try running.connect()
            let answer = try client.ask(
                #"{"type": "admin", "action": "migrate", "dryRun": true, "removedParts": "drop", "tag": 1}"#)
            #expect(
                answer.text
                    == #"{"type":"done","action":"migrate","dryRun":true,"changes":[{"change":"dropped","subject":"A.b","#
                    + #""message":"A.b is gone","remedy":"none","loss":{"kind":"values","count":12,"examples":["1: 'x'"]}}],"tag":1}"#
            )
            let refused = try client.ask(#"{"type": "admin", "action": "migrate"}"#)
            #expect(refused.code == "storeUnavailable" && refused["error.message"] == "two differences")
            #expect(
                try client.ask(#"{"type": "admin", "action": "migrate", "dryRun": 1}"#).code == "unsupportedMessage")
        }
        #expect(
            asked.all == [
                MigrateMessage(isDryRun: true, removedParts: .drop),
                MigrateMessage(isDryRun: false, removedParts: .refuse),
            ])
        // A server within another program does not decide about the model.
        try await RunningServer.run { running in
            let client = try running.connect()
            let answer = try client.ask(#"{"type": "admin", "action": "migrate", "dryRun": true}"#)
            #expect(answer.code == "unsupportedMessage")
        }
    }
}

private final class RecordedMigrations: Sendable {
    private let messages = Mutex<[MigrateMessage]>([])

    var all: [MigrateMessage] { messages.withLock { $0 } }

    func add(_ message: MigrateMessage) { messages.withLock { $0.append(message) } }
}

@Suite(.timeLimit(.minutes(5)), .server) struct OrderTests {
    private let running = RunningServer.current

    @Test func `a client that ends its sending side gets every answer that is due, in order`() throws {
        let client = try running.connect()
        for number in 1...200 {
            try client.send(#"{"id": "\#(number)", "entity": "Department", "json": {"id": 1, "name": "\#(number)"}}"#)
        }
        client.endSending()
        for number in 1...200 {
            let completed = try client.next()
            #expect(completed["id"] == "\(number)")
            #expect(completed.sequence == number)
        }
        #expect(try client.receive() == nil)
    }

    private static let narrow: CoordinatorLimits = {
        var limits = CoordinatorLimits(workers: 1)
        limits.bytes = 64 << 10
        limits.jobs = 4
        return limits
    }()

    @Test(.server(limits: narrow)) func `stats are answered while a client fills the server`() throws {
        let greedy = try running.connect()
        let records = (0..<2_000).map { #"{"id": \#($0), "name": "department number \#($0)"}"# }.joined(separator: ",")
        let jobs = 24
        // Fire and forget: all the answers fit the socket, so sending alone is what waits.
        for number in 0..<jobs {
            try greedy.send(#"{"id": "\#(number)", "reply": "none", "entity": "Department", "json": [\#(records)]}"#)
            if number % 8 == 0 {
                let stats = try running.connect().ask(#"{"type": "stats"}"#)
                #expect(stats.type == "stats")
            }
        }
        greedy.endSending()
        for number in 0..<jobs { #expect(try greedy.next()["id"] == "\(number)") }
    }
}

/// `outcomesForgottenThrough`, by which a client decides whether a job that it sends again may have taken effect before.
@Suite(.timeLimit(.minutes(5)), .server) struct ForgottenOutcomesTests {
    private let running = RunningServer.current

    @Test(.server(outcomesKept: 10))
    func `the newest sequence whose outcome may be forgotten is exact in each welcome`() throws {
        func forgotten() throws -> String? {
            try running.connect().ask(#"{"type": "hello", "version": 1}"#)["limits.outcomesForgottenThrough"]
        }
        let client = try running.connect()
        for number in 1...13 {
            let answer = try client.ask(#"{"entity": "Employee", "json": [{"id": \#(number), "name": "E"}]}"#)
            #expect(answer["sequence"] == "\(number)")
            #expect(try forgotten() == "\(max(0, number - 10))")
        }
    }
}

/// The log, and the lists of jobs and entities, of a server with a socket.
@Suite(.timeLimit(.minutes(5))) struct ListingTests {
    private static let invalid = #"{"id": "%", "entity": "Employee", "json": [{"id": 1, "name": "Ada", "age": "old"}]}"#

    private static func job(_ id: String, _ text: String) -> String { text.replacing("%", with: id) }

    @Test func `a failed job is a line with its place, and a client that fails many causes few`() async throws {
        try await RunningServer.run { running in
            try await offThePool {
                let client = try running.connect()
                for number in 0..<80 { try client.send(Self.job("bad-\(number)", Self.invalid)) }
                for _ in 0..<80 { #expect(try client.next().code == "invalidValue") }
                // Refused before it has a place in the order.
                _ = try client.ask(Self.job("bad", #"{"id": "%", "entity": "Robot", "json": []}"#))
                // Within a second, one is logged again.
                while !running.log.lines.contains(where: { $0.contains("notLogged=") }) {
                    _ = try client.ask(Self.job("late", Self.invalid))
                }
            }
            let lines = running.log.lines.filter { !$0.contains("id=late ") }
            let failed = lines.filter { $0.hasPrefix("notice A job failed. ") }
            #expect((50..<81).contains(failed.count), "\(failed.count)")
            let first = try #require(failed.first)
            for part in [
                "code=invalidValue", "id=bad-0", "path=/json/0/age", "sequence=1", "user=", "process=", "message=",
            ] {
                #expect(first.contains(part), "\(first)")
            }
            #expect(lines.contains { $0.hasPrefix("debug A job failed. ") && $0.contains("id=bad-") })
            let all = running.log.lines.filter { $0.contains(" A job failed. ") }
            let next = try #require(all.firstIndex { $0.contains("notLogged=") })
            #expect(all[next].contains("notLogged=\(all[..<next].count { $0.hasPrefix("debug ") }) "), "\(all[next])")
        }
    }

    @Test func `the outcome of a job has no text of SQLite's, and the line about the job has it`() async throws {
        try await RunningServer.run { running in
            try Locker(running.folder + "/store.sqlite").execute(
                "CREATE INDEX by_part ON Employee (json_extract(name, '$.a')); COMMIT")
            try await offThePool {
                let client = try running.connect()
                try client.send(#"{"id": "a", "entity": "Employee", "json": [{"id": 1, "name": "Ada"}]}"#)
                let failed = try client.next()
                #expect(failed.code == "constraintViolation")
                let message = failed["error.message"] ?? ""
                #expect(!message.contains("malformed") && message.contains("an expression of a table"), "\(message)")
                try client.send(#"{"id": "b", "entity": "Employee", "json": [{"id": 2, "name": "{}"}]}"#)
                #expect(try client.next().type == "completed")
            }
            let line = try #require(running.log.line(.notice, "A job failed."))
            #expect(line.contains("id=a ") && line.contains(#"cause="malformed JSON""#), "\(line)")
        }
    }

    @Test func `slow jobs are logged with their stages when that is wanted`() async throws {
        try await RunningServer.run(slowJobMicroseconds: 1) {
            $0.logsSlowJobs = true
        } _: { running in
            let client = try running.connect()
            #expect(try client.ask(#"{"id": "a", "entity": "Department", "json": [{"id": 1}]}"#).type == "completed")
            let jobs = try client.ask(#"{"type": "jobs", "lists": ["slow"]}"#)
            #expect(jobs["slow.0.id"] == "a" && jobs["slow.0.failed"] == "false" && jobs["running"] == nil)
            #expect(Int(jobs["slow.0.microseconds.total"] ?? "") ?? 0 > 0 && jobs["slow.0.microseconds.work"] != nil)
            #expect(jobs["slow.0.operations.0"] == "process" && jobs["slow.0.entities.0"] == "Department")
            // The line is written after the answer.
            while running.log.line(.notice, "A job was slow.") == nil { _ = try client.ask(#"{"type": "ping"}"#) }
            let line = try #require(running.log.line(.notice, "A job was slow."))
            for part in [
                "id=a", "sequence=1", "user=", "operations=process", "entities=Department", "work=", "queued=",
                "staged=",
                "waited=", "merged=", "committed=", "total=",
            ] {
                #expect(line.contains(part), "\(line)")
            }
        }
    }

    @Test func `running and failed jobs are listed with their stages and errors`() async throws {
        try await RunningServer.run(slowJobMicroseconds: 3_600_000_000) { running in
            let client = try running.connect()
            #expect(try client.ask(Self.job("bad", Self.invalid)).type == "failed")
            let nameless = #"{"id": "nameless", "entity": "Employee", "json": [{"name": "Ada"}]}"#
            #expect(try client.ask(nameless).code == "missingIdentity")
            #expect(try client.ask(#"{"type": "admin", "action": "pause"}"#).type == "done")
            for id in ["b", "c"] {
                try client.send(#"{"id": "\#(id)", "entity": "Department", "json": [{"id": 1}]}"#)
            }
            #expect(try client.ask(#"{"type": "cancel", "id": "c"}"#).type == "cancelled")
            #expect(try client.next().code == "cancelled")
            var jobs = try client.ask(#"{"type": "jobs", "tag": 7}"#)
            while jobs["running.0.stage"] == "staging" { jobs = try client.ask(#"{"type": "jobs", "tag": 7}"#) }
            #expect(jobs.type == "jobs" && jobs["tag"] == "7")
            #expect(jobs["running.0.id"] == "b" && jobs["running.0.stage"] == "staged")
            #expect(jobs["running.0.sequence"] == "3" && jobs["running.1.stage"] == "cancelled")
            #expect(jobs["failed.1.id"] == "bad" && jobs["failed.1.error.code"] == "invalidValue")
            #expect(jobs["failed.0.id"] == "nameless" && jobs["failed.2"] == nil && jobs["slow.0"] == nil)
            #expect(try client.ask(#"{"type": "jobs", "lists": ["running"], "limit": 1}"#)["running.1"] == nil)
            func failed(_ filter: String) throws -> [String?] {
                let jobs = try client.ask("{\"type\": \"jobs\", \"lists\": [\"failed\"], \(filter)}")
                return [jobs["failed.0.id"], jobs["failed.1.id"]]
            }
            #expect(try failed(#""code": "invalidValue""#) == ["bad", nil])
            #expect(try failed(#""code": "busy""#) == [nil, nil])
            #expect(try failed(#""code": "missingIdentity", "user": \#(getuid()), "since": 1"#) == ["nameless", nil])
            #expect(try failed(#""user": 4294967295"#) == [nil, nil])
            #expect(try failed(#""since": 99999999999999"#) == [nil, nil])
            #expect(try client.ask(#"{"type": "jobs", "code": "busi"}"#).code == "unsupportedMessage")
            for wrong in [
                #""lists": ["old"]"#, #""lists": 1"#, #""limit": 0"#, #""limit": 1001"#, #""limit": 1.5"#,
                #""since": "1h""#,
                #""user": "ada""#, #""user": -1"#, #""user": 4294967296"#, #""code": 1"#,
            ] {
                #expect(try client.ask("{\"type\": \"jobs\", \(wrong)}").code == "unsupportedMessage", "\(wrong)")
            }
            let stats = try client.ask(#"{"type": "stats"}"#)
            #expect(stats["paused"] == "true" && stats["connections.open"] == "1" && stats["store.outcomes"] == "2")
            #expect(stats["lastMinute.jobs.failed"] == "2" && stats["histograms.total.count"] == "2")
        }
    }
}

@Suite(.timeLimit(.minutes(5)), .server) struct LogEscapingTests {
    private let running = RunningServer.current

    private static let forged = #"x\" user=0\n2026-01-01T00:00:00+0000 critical brokerd: \u001b[2J\u2028\u202e\u009b"#

    @Test func `texts of clients cannot forge a line or a field of the log`() async throws {
        let lines = try await offThePool {
            let client = try running.connect()
            try client.send(#"{"type": "hello", "client": "\#(Self.forged)"}"#)
            _ = try client.next()
            try client.send(#"{"id": "\#(Self.forged)", "entity": "Employee", "json": [{"id": 1}]}"#)
            _ = try client.next()
            try client.send(#"{"type": "\#(Self.forged)"}"#)
            _ = try client.next()
            return running.log.lines
        }
        let id = #"id="x\" user=0\u{A}2026-01-01T00:00:00+0000 critical brokerd: \u{1B}[2J\u{2028}\u{202E}\u{9B}""#
        #expect(lines.contains { $0.hasPrefix("notice A job failed. ") && $0.contains(id) }, "\(lines)")
        #expect(lines.contains { $0.hasPrefix("info A message was not understood: ") && $0.contains(#"\u{A}"#) })
        #expect(lines.contains { $0.hasPrefix("debug A client said hello. ") && $0.contains(#"\u{A}"#) })
        for line in lines {
            #expect(!line.unicodeScalars.contains { "\n\u{1B}\u{2028}\u{202E}\u{9B}".unicodeScalars.contains($0) })
        }
    }
}

@Suite(.timeLimit(.minutes(5))) struct LogRationTests {
    private let start = ContinuousClock.now

    @Test func `a user causes a burst of lines, then one a second, and the omitted ones are counted`() {
        var ration = LogRation(at: start)
        func lines(_ count: Int, after seconds: Double) -> Int {
            (0..<count).count { _ in ration.take(at: start + .seconds(seconds)) }
        }
        #expect(lines(200, after: 0) == LogRation.burst)
        let omitted = [ration.takeOmitted(), ration.takeOmitted()]
        #expect(omitted == [200 - LogRation.burst, 0])
        #expect(lines(10, after: 0.9) == 0)
        #expect(lines(10, after: 3) == 3)
        // A day of failures has as many lines as it has seconds.
        let day = (1...86_400).reduce(0) { sum, second in sum + lines(2, after: 3 + Double(second)) }
        #expect(day == 86_400)
    }

    @Test func `credit does not grow above the burst`() {
        var ration = LogRation(at: start)
        #expect(ration.isFull(at: start))
        let isTaken = ration.take(at: start)
        #expect(isTaken && !ration.isFull(at: start + .milliseconds(900)))
        #expect(ration.isFull(at: start + .seconds(3_600)))
        let later = start + .seconds(7_200)
        let taken = (0..<200).count { _ in ration.take(at: later) }
        #expect(taken == LogRation.burst)
        #expect(ration.isFull(at: later + .seconds(3_600)))
    }
}
