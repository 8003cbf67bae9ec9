import Foundation
import TestSupport
import Testing

@testable import brokerd

/// brokerd as a service manager starts it: notifications, a passed socket, and the units.
@Suite(.timeLimit(.minutes(5))) struct ServiceManagerTests {
    private let programs: Programs

    init() throws { programs = try Programs() }

    /// The manager's end of the notifications.
    private final class Receiver {
        private let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
        private var lines: [String] = []

        init(_ path: String) throws {
            var address = sockaddr_un()
            address.sun_family = sa_family_t(AF_UNIX)
            let bytes = path.hasPrefix("@") ? [0] + Array(path.utf8.dropFirst()) : Array(path.utf8)
            withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
            let size = socklen_t(MemoryLayout<sa_family_t>.size + bytes.count)
            let isBound = withUnsafePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, size) == 0 }
            }
            guard isBound else { throw Programs.Failure(what: String(cString: strerror(errno))) }
        }

        deinit { close(descriptor) }

        /// The lines up to the first that begins so.
        func lines(through beginning: String) -> [String] {
            var passed: [String] = []
            while true {
                while !lines.isEmpty {
                    passed.append(lines.removeFirst())
                    if passed[passed.count - 1].hasPrefix(beginning) { return passed }
                }
                var buffer = [UInt8](repeating: 0, count: 4_096)
                let count = recv(descriptor, &buffer, buffer.count, 0)
                if count < 0 { return passed }
                lines = String(decoding: buffer.prefix(count), as: UTF8.self).components(separatedBy: "\n")
            }
        }
    }

    /// Starts brokerd with a line of Python before it, in which `s` is a listening socket.
    private func start(_ line: String) throws -> Programs.Result {
        let code = """
            import os, socket
            s = socket.socket(socket.AF_UNIX); s.bind("passed.sock"); s.listen()
            os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1", LISTEN_FDNAMES="brokerd.socket")
            \(line)
            os.dup2(s.fileno(), 3); os.set_inheritable(3, True)
            os.execv("\(programs.executable("brokerd").path)", ["brokerd", "--model", "model.json", "--store", "store.sqlite"])
            """
        try programs.write(code, to: "start.py")
        return try programs.shell("exec timeout \(Patience.seconds) python3 start.py")
    }

    @Test func `the manager is notified of ready, reloading and stopping, with the status`() throws {
        let address = "@broker-test-\(getpid())-\(UUID().uuidString.prefix(8))"
        let manager = try Receiver(address)
        let server = try programs.startServer(environment: ["NOTIFY_SOCKET": address, "WATCHDOG_USEC": "40000"])
        let start = manager.lines(through: "READY=1")
        #expect(start.contains { $0.hasPrefix("STATUS=Starting: ") } && start.contains("EXTEND_TIMEOUT_USEC=60000000"))
        #expect(manager.lines(through: "STATUS=").last == "STATUS=Serving: 0 connections, 0 jobs in flight.")
        // An idle server is healthy.
        for _ in 0..<3 { #expect(manager.lines(through: "WATCHDOG=1").last == "WATCHDOG=1") }
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        kill(server.processIdentifier, SIGHUP)
        #expect(manager.lines(through: "RELOADING=1").last == "RELOADING=1")
        let stamp = try #require(manager.lines(through: "MONOTONIC_USEC=").last?.split(separator: "=").last)
        #expect(try #require(Int(stamp)) >= time.tv_sec * 1_000_000 + time.tv_nsec / 1_000)
        #expect(manager.lines(through: "READY=1").last == "READY=1")
        try programs.write("{", to: "model.json")
        kill(server.processIdentifier, SIGHUP)
        _ = manager.lines(through: "READY=1")
        let refusal = try #require(manager.lines(through: "STATUS=").last)
        #expect(refusal.contains("The last reload was refused: The model /") && refusal.contains("/model.json"))
        kill(server.processIdentifier, SIGTERM)
        #expect(manager.lines(through: "STOPPING=1").last == "STOPPING=1")
        #expect(manager.lines(through: "STATUS=").last?.hasPrefix("STATUS=") == true)
        server.waitUntilExit()
        #expect(server.terminationStatus == 0)
    }

    @Test func `the unit's command for a reload fails with the reason when the model is refused`() throws {
        let setting = try #require(
            try Repository.text(of: "scripts/systemd/brokerd.service").components(separatedBy: "\n")
                .first { $0.hasPrefix("ExecReload=") })
        let arguments = setting.replacingOccurrences(of: "/run/broker/broker.sock", with: "broker.sock")
            .split(separator: " ").dropFirst().map(String.init)
        #expect(setting.hasPrefix("ExecReload=/usr/bin/broker "))
        let server = try programs.startServer()
        #expect(try programs.run("broker", arguments).status == 0)
        try programs.write("{", to: "model.json")
        let refused = try programs.run("broker", arguments)
        #expect(refused.status == 1 && refused.complaints.contains("model.json"), "\(refused.complaints)")
        kill(server.processIdentifier, SIGTERM)
        server.waitUntilExit()
    }

    @Test func `a passed socket is served with the clients that wait on it, and its file stays as it is`() throws {
        // The client connects, sends and gets its answer only if the server serves the passed socket.
        let client = """
            os.chmod("passed.sock", 0o640)
            if os.fork() == 0:
                s.close(); c = socket.socket(socket.AF_UNIX); c.connect("passed.sock")
                c.sendall(open("drain", "rb").read())
                open("answer", "wb").write(c.recv(65536)); os._exit(0)
            """
        try Data(RawClient.frame(Array(#"{"type": "admin", "action": "drain"}"#.utf8))).write(
            to: URL(fileURLWithPath: programs.path("drain")))
        let result = try start(client)
        #expect(result.status == 0, "\(result.complaints)")
        #expect(result.output.contains("ready on passed.sock"))
        let attributes = try FileManager.default.attributesOfItem(atPath: programs.path("passed.sock"))
        #expect(attributes[.posixPermissions] as? Int == 0o640)
        #expect(FileManager.default.fileExists(atPath: programs.path("store.sqlite")))
    }

    @Test(arguments: [
        "os.environ['LISTEN_FDS'] = '2'", "s = socket.socket(socket.AF_INET); s.listen()", "s = socket.socketpair()[0]",
        "s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)",
    ])
    func `a passed socket that cannot be served is refused with one line, and no store is made`(line: String) throws {
        let result = try start(line)
        #expect(result.status == 1)
        #expect(
            result.complaints.split(separator: "\n").count == 1
                && result.complaints.contains("than one Unix stream socket that listens"), "\(result.complaints)")
        #expect(!FileManager.default.fileExists(atPath: programs.path("store.sqlite")))
    }

    @Test func `without a passed socket --socket is required`() throws {
        let result = try programs.run("brokerd", ["--model", "model.json", "--store", "store.sqlite"])
        #expect(result.status == 2 && result.complaints.contains("'--socket <path>'"))
    }

    /// Not on every system.
    static let hasAnalyzer = FileManager.default.isExecutableFile(atPath: "/usr/bin/systemd-analyze")

    @Test(.enabled(if: hasAnalyzer, "takes systemd-analyze, of the Debian package systemd"))
    func `the units are valid, and their exposure is at most 2`() throws {
        let units =
            try Repository.files(in: "scripts/systemd", suffix: ".service")
            + Repository.files(in: "scripts/systemd", suffix: ".timer")
        #expect(units.count == 5)
        for unit in units {
            let text = try Repository.text(of: unit)
            let installed = text.replacingOccurrences(
                of: "/usr/bin/", with: programs.executable("brokerd").deletingLastPathComponent().path + "/"
            )
            // Not on every machine that has the unit.
            .replacingOccurrences(of: "ExecStart=litestream", with: "ExecStart=/bin/true")
            try programs.write(installed, to: unit.components(separatedBy: "/").last!)
        }
        let names = units.map { "./" + $0.components(separatedBy: "/").last! }
        let verified = try programs.shell("systemd-analyze verify --man=no \(names.joined(separator: " "))")
        #expect(verified.status == 0 && verified.complaints.isEmpty, "\(verified.complaints)")
        for name in names where name.hasSuffix(".service") {
            let judged = try programs.shell("systemd-analyze security --offline=true --threshold=20 \(name)")
            #expect(judged.status == 0, "\(judged.output.suffix(200))\(judged.complaints)")
        }
    }

    @Test func `the units for several stores are those for one, with the name of the instance`() throws {
        func settings(_ path: String) throws -> [String] {
            try Repository.text(of: path).components(separatedBy: "\n").filter {
                !$0.hasPrefix("#") && !$0.hasPrefix("Description=")
            }
        }
        let one = try settings("scripts/systemd/brokerd.service").map {
            switch $0 {
            case "ExecStart=/usr/bin/brokerd --config /etc/broker/brokerd.json":
                "ExecStart=/usr/bin/brokerd --config /etc/broker/%i.json"
            case "StateDirectory=broker": "StateDirectory=broker/%i"
            case let line where line.hasPrefix("ExecReload="):
                line.replacingOccurrences(of: "broker.sock", with: "%i.sock")
            default: $0
            }
        }
        #expect(try settings("scripts/systemd/brokerd@.service") == one)
    }
}

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

    @Test(.enabled(if: mayBeOthers, "takes root and setpriv"))
    func `a user has its limits, the operator none, and a reload ends the connections of a user who is taken out`()
        throws
    {
        let limits = #""user-connections": "65534:1", "user-jobs-per-second": [1000, "65534:2"]"#
        try programs.write(#"{"socket-mode": "0666", "allow-user": "65534", \#(limits)}"#, to: "brokerd.json")
        _ = try programs.startServer(["--config", "brokerd.json"])
        #expect(chmod(programs.folder, 0o755) == 0)
        let job = #"{"entity": "Department", "json": {"id": 1}}"#
        // Those that are on their way take effect, and the next message waits until they would have been due.
        let broker = programs.executable("broker").path
        #expect(try programs.shell("echo '\(job)' | \(broker) frame > job.frame").status == 0)
        let start = ContinuousClock.now
        let answers = try programs.shell(
            "cat job.frame job.frame job.frame job.frame job.frame job.frame | setpriv --reuid=65534 --regid=65534 --clear-groups "
                + "socat -t 20 - UNIX-CONNECT:broker.sock | \(broker) unframe")
        #expect(answers.output.components(separatedBy: #""type":"completed""#).count == 7, "\(answers)")
        #expect(try other(#"{"type": "ping"}"#).contains("pong"))
        #expect(ContinuousClock.now - start > .milliseconds(1_900))
        // Sends a line, and keeps the connection.
        let held = try programs.start(
            "setpriv --reuid=65534 --regid=65534 --clear-groups socat -u UNIX-CONNECT:broker.sock CREATE:/dev/null")
        let own = try RawClient(programs.path("broker.sock"))
        while try !own.ask(#"{"type": "admin", "action": "clients"}"#).text.contains(#""user":65534"#) {}
        let refusal = try other(#"{"type": "ping"}"#)
        #expect(refusal.contains(#""code":"busy""#) && refusal.contains("--user-connections"), "\(refusal)")
        for _ in 0..<20 { #expect(try own.ask(job).type == "completed") }
        try programs.write(#"{"socket-mode": "0666", \#(limits)}"#, to: "brokerd.json")
        #expect(try own.ask(#"{"type": "admin", "action": "reload"}"#).type == "done")
        held.waitUntilExit()
        #expect(try !own.ask(#"{"type": "admin", "action": "clients"}"#).text.contains(#""user":65534"#))
        #expect(try other(#"{"type": "ping"}"#).contains("unauthorized"))
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
