import Foundation
import TestSupport
import Testing

/// Access to a server's socket and files, with processes of other users and groups, which only root can start.
@Suite(.timeLimit(.minutes(5))) struct AccessTests {
    private let programs: Programs

    init() throws { programs = try Programs() }

    /// util-linux's, which runs a program as another user.
    static let mayBeOthers = geteuid() == 0 && FileManager.default.isExecutableFile(atPath: "/usr/bin/setpriv")

    /// The server's answer to a client of that user and those groups.
    private func answer(as credentials: String, to message: String = #"{"type": "ping"}"#) throws -> String {
        let broker = programs.executable("broker").path
        let result = try programs.shell(
            "echo '\(message)' | \(broker) frame | setpriv --reuid=65534 \(credentials) socat -t 20 - "
                + "UNIX-CONNECT:broker.sock | \(broker) unframe")
        return result.output + result.complaints
    }

    private func mode(_ name: String) throws -> Int {
        let attributes = try FileManager.default.attributesOfItem(atPath: programs.path(name))
        return try #require(attributes[.posixPermissions] as? Int)
    }

    /// Bits that the mask of this process takes from new files; only read, for it is the process's.
    private var mask: Int {
        get throws {
            let line = try programs.shell("umask").output.split(separator: "\n").first ?? ""
            return try #require(Int(line, radix: 8))
        }
    }

    @Test(.enabled(if: mayBeOthers, "takes root and setpriv"))
    func
        `a user who can reach the socket is served for a group of its process, and otherwise gets the options in the error`()
        throws
    {
        _ = try programs.startServer([
            "--socket-mode", "0666", "--allow-group", "4242:read", "--allow-group", "4343:insert",
        ])
        #expect(chmod(programs.folder, 0o755) == 0)
        let refusal = try answer(as: "--regid=65534 --clear-groups")
        for word in ["unauthorized", "--allow-user 65534", "--allow-group"] {
            #expect(refusal.contains(word), "\(refusal)")
        }
        #expect(try answer(as: "--regid=65534 --groups=1,2,3").contains("unauthorized"))
        #expect(try answer(as: "--regid=4242 --clear-groups").contains("pong"))
        #expect(try answer(as: "--regid=65534 --groups=1,2,4343,5").contains("pong"))
        let job = #"{"entity": "Employee", "json": {"id": 1}}"#
        #expect(try answer(as: "--regid=4242 --clear-groups", to: job).contains(#""code":"unauthorized""#))
        #expect(try answer(as: "--regid=4242 --groups=4343", to: job).contains(#""type":"completed""#))
    }

    @Test func `a role that does not exist is a usage error`() throws {
        for option in ["--allow-user", "--allow-group"] {
            let result = try programs.run(
                "brokerd", ["--model", "model.json", "--store", "s.sqlite", "--socket", "s.sock", option, "0:delete"])
            #expect(result.status == 2 && result.complaints.contains("read, insert, write"), "\(result.complaints)")
        }
    }

    @Test(.enabled(if: mayBeOthers, "takes root and setpriv"))
    func `the socket's group is let to the socket, and its members are served if they are allowed`() throws {
        let arguments = ["--socket-group", "4242", "--allow-user", "65534"]
        _ = try programs.startServer(arguments)
        #expect(chmod(programs.folder, 0o755) == 0)
        #expect(try mode("broker.sock") == 0o660)
        #expect(try answer(as: "--regid=65534 --groups=4242").contains("pong"))
        #expect(try answer(as: "--regid=65534 --clear-groups").contains("Permission denied"))
    }

    @Test(.enabled(if: mayBeOthers, "takes root and setpriv"))
    func `a server that may not give its socket to a group says so, with status 1, and touches no file`() throws {
        #expect(chmod(programs.folder, 0o777) == 0)
        let program = programs.executable("brokerd").path
        let other = "setpriv --reuid=65534 --regid=65534 --clear-groups"
        // The programs may lie where others have nothing to look for.
        guard try programs.shell("\(other) test -x \(program)").status == 0 else { return }
        let before = try FileManager.default.contentsOfDirectory(atPath: programs.folder)
        let result = try programs.shell(
            "exec timeout \(Patience.seconds) \(other) \(program) --model model.json --store s.sqlite --socket s.sock --socket-group 4242"
        )
        #expect(result.status == 1)
        #expect(result.complaints.split(separator: "\n").count == 1)
        #expect(result.complaints.contains("cannot be given to the group 4242"), "\(result.complaints)")
        #expect(
            Set(try FileManager.default.contentsOfDirectory(atPath: programs.folder)).subtracting(before)
                .allSatisfy { $0.hasPrefix(".") })
    }

    @Test(.enabled(if: mayBeOthers, "takes root and setpriv"))
    func `a client that is neither root nor the server's user cannot see others' jobs or administer the server`() throws
    {
        _ = try programs.startServer(["--socket-mode", "0666", "--allow-user", "65534"])
        #expect(chmod(programs.folder, 0o755) == 0)
        let own = try RawClient(programs.path("broker.sock"))
        _ = try own.ask(#"{"type": "admin", "action": "pause"}"#)
        let job = #"{"id": "a", "entity": "Department", "json": {"id": 1}, "notify": ["accepted"]}"#
        #expect(try own.ask(job).type == "accepted")
        for action in ["pause", "resume", "drain", "checkpoint", "reload"] {
            let answer = try other(#"{"type": "admin", "action": "\#(action)"}"#)
            #expect(answer.contains("unauthorized"), "\(answer)")
        }
        let backup = try other(#"{"type": "admin", "action": "backup", "file": "\#(programs.path("copy"))"}"#)
        #expect(backup.contains("unauthorized") && !FileManager.default.fileExists(atPath: programs.path("copy")))
        #expect(try other(#"{"type": "cancel", "id": "a"}"#).contains("unknownJob"))
        #expect(try other(#"{"type": "await", "id": "a"}"#).contains("unknownJob"))
        _ = try own.ask(#"{"type": "admin", "action": "resume"}"#)
        #expect(try own.ask(#"{"type": "await", "id": "a"}"#).type == "completed")
        #expect(try other(#"{"type": "await", "id": "a"}"#).contains("unknownJob"))
        #expect(try other(job).contains("idConflict"))
        #expect(try other(#"{"id": "b", "entity": "Department", "json": {"id": 2}}"#).contains("completed"))
        #expect(try own.ask(#"{"type": "await", "id": "b"}"#).type == "completed")
    }

    private func other(_ message: String) throws -> String {
        try answer(as: "--regid=65534 --clear-groups", to: message)
    }

    @Test func `users and groups are given by name or by number`() throws {
        _ = try programs.startServer([
            "--allow-user", "root", "--allow-group", "root", "--allow-group", "0", "--allow-user", "0",
        ])
    }

    @Test func `a new store is its owner's and its group's to read, and one that is there keeps its mode`() throws {
        let files = ["store.sqlite", "store.sqlite-wal", "store.sqlite-shm", "store.sqlite.lock"]
        var server = try programs.startServer()
        for name in files { #expect(try mode(name) == 0o640 & ~(try mask), "\(name)") }
        stop(server)
        for name in ["store.sqlite", "store.sqlite.lock"] { #expect(chmod(programs.path(name), 0o606) == 0) }
        server = try programs.startServer()
        for name in files { #expect(try mode(name) == 0o606, "\(name)") }
        stop(server)
    }

    @Test func `the store's files have the mode that is asked for, whatever the mask`() throws {
        let files = ["store.sqlite", "store.sqlite-wal", "store.sqlite-shm", "store.sqlite.lock"]
        var server = try programs.startServer(["--store-mode", "666"])
        for name in files { #expect(try mode(name) == 0o666, "\(name)") }
        // The files of a killed server are changed, too.
        kill(server.processIdentifier, SIGKILL)
        server.waitUntilExit()
        server = try programs.startServer(["--store-mode", "0600"])
        for name in files { #expect(try mode(name) == 0o600, "\(name)") }
        stop(server)
    }

    private func stop(_ server: Process) {
        kill(server.processIdentifier, SIGTERM)
        server.waitUntilExit()
        #expect(server.terminationStatus == 0)
    }
}
