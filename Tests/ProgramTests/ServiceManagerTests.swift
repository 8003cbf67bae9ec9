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
        #expect(
            manager.lines(through: "STATUS=").last?.contains("The last reload was refused: The model model.json")
                == true)
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
        ("os.environ['LISTEN_FDS'] = '2'", "2 sockets"),
        ("s = socket.socket(socket.AF_INET); s.listen()", "no Unix socket"),
        ("s = socket.socketpair()[0]", "does not listen"),
    ])
    func `a passed socket that cannot be served is refused with one line, and no store is made`(
        line: String, words: String
    ) throws {
        let result = try start(line)
        #expect(result.status == 1)
        #expect(
            result.complaints.split(separator: "\n").count == 1 && result.complaints.contains(words),
            "\(result.complaints)")
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
            + Repository.files(in: "scripts/systemd", suffix: ".socket")
        #expect(units.count == 4)
        for unit in units {
            let text = try Repository.text(of: unit)
            let installed = text.replacingOccurrences(
                of: "/usr/bin/", with: programs.executable("brokerd").deletingLastPathComponent().path + "/")
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
        let socket = try settings("scripts/systemd/brokerd.socket").map {
            $0.replacingOccurrences(of: "broker.sock", with: "%i.sock")
        }
        #expect(try settings("scripts/systemd/brokerd@.socket") == socket)
    }
}
