@testable import BrokerServer
import BrokerWire
import Foundation
import TestSupport
import Testing

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
