#if Replication
import Foundation
import TestSupport
import Testing

@testable import BrokerReplication

/// Real servers of NATS with JetStream. A test leaves them as it found them: all running.
final class NATSCluster {
    let servers: [NATSServer]
    private let options: NATSServer.Options
    private let isClustered: Bool

    /// Three servers for all tests that change nothing of theirs for good.
    ///
    /// The tests that use it are serialized, so one thread at a time uses it.
    nonisolated(unsafe) static let shared: NATSCluster? = {
        do { return try NATSCluster(3) } catch {
            Issue.record("\(error): nats-server is missing; run need_nats of scripts/install-dependencies")
            return nil
        }
    }()

    init(_ count: Int, _ options: NATSServer.Options = NATSServer.Options()) throws {
        let folder = NSTemporaryDirectory() + "broker-nats-\(UUID().uuidString.prefix(8))"
        self.options = options
        isClustered = count > 1
        servers = try (1...count).map { try NATSServer("n\($0)", in: folder) }
        for index in servers.indices { try start(index) }
    }

    func start(_ index: Int) throws {
        try servers[index].start(options, routes: isClustered ? servers.map(\.routePort) : nil)
    }

    /// Starts and continues what a test has ended and stopped.
    func restore() throws {
        for (index, server) in servers.enumerated() {
            server.resume()
            if !server.isRunning { try start(index) }
        }
    }

    func index(of name: String?) throws -> Int { try #require(servers.firstIndex { $0.name == name }) }

    func address(_ stream: String, of indices: [Int]? = nil, user: String? = nil) throws -> StreamAddress {
        let hosts = (indices ?? Array(servers.indices)).map { servers[$0].url }.joined(separator: ",")
        return try StreamAddress("nats://\(user.map { "\($0):\($0)@" } ?? "")\(hosts)/\(stream)")
    }

    func connect(_ stream: String, of indices: [Int]? = nil, user: String? = nil) throws -> StreamConnection {
        try StreamConnection(try address(stream, of: indices, user: user))
    }

    /// Creates a stream when the servers have found each other.
    func createStream(
        _ name: String, maximumBytes: Int64? = nil, requirements: StreamRequirements = .standard
    ) throws -> ReplicatedStream {
        let connection = try connect(name)
        var stream: ReplicatedStream?
        var failure: ReplicationError?
        try waitUntil("the stream \(name) is created") {
            do throws(ReplicationError) {
                stream = try ReplicatedStream.create(connection, maximumBytes: maximumBytes, requirements: requirements)
            } catch {
                guard error.code == .tooFewPeers || error.code == .unavailable || error.code == .noJetStream else {
                    failure = error
                    return true
                }
            }
            return stream != nil
        }
        if let failure { throw failure }
        let created = try #require(stream)
        try waitUntilCurrent(created)
        return created
    }

    /// Waits until all copies are complete.
    func waitUntilCurrent(_ stream: ReplicatedStream) throws {
        try waitUntil("all copies of \(stream.name) are complete") {
            guard let status = try? stream.status(patience: 1_000_000), status.leader != nil else { return false }
            return status.copies == 3 && status.peers.allSatisfy { $0.isCurrent && !$0.isOffline && $0.lag == 0 }
        }
    }
}

/// A process of nats-server, with a folder and ports of its own. It ends with this object, or with the process of the tests,
/// however that ends: its shell then reads the end of a pipe, ends the server by its process id and deletes the folder.
final class NATSServer {
    struct Options {
        var hasJetStream = true
        var syncInterval = "always"
        var maximumPayload = 17 << 20
        /// JetStream's bytes on the disk.
        var storage = "1GB"
        /// Files of a certificate and its key: clients must then use TLS.
        var certificate: (file: String, key: String)?
    }

    let name: String
    let port: UInt16
    let routePort: UInt16
    private let folder: String
    private var shell: Process?
    private var pipe: Pipe?
    private(set) var processID: pid_t = 0
    private(set) var isRunning = false
    private var isPaused = false

    /// The program that `need_nats` of scripts/install-dependencies installs.
    static let program: String = {
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        return root.appending(path: ".build/nats/bin/nats-server").path
    }()

    init(_ name: String, in folder: String) throws {
        self.name = name
        self.folder = "\(folder)/\(name)"
        port = try Self.freePort()
        routePort = try Self.freePort()
        try FileManager.default.createDirectory(atPath: self.folder, withIntermediateDirectories: true)
    }

    deinit { end(keepingFolder: false) }

    var url: String { "127.0.0.1:\(port)" }

    /// Starts the process, with what it stored before.
    ///
    /// - Parameter routes: the ports of the cluster's servers; nil for a server that is alone.
    func start(_ options: Options, routes: [UInt16]?) throws {
        end(keepingFolder: true)
        let jetStream =
            options.hasJetStream
            ? """
            jetstream { store_dir: "\(folder)/data", sync_interval: \(options.syncInterval), max_file_store: \(options.storage) }
            """ : ""
        let cluster =
            routes.map { ports in
                let routes = ports.map { "nats://127.0.0.1:\($0)" }.joined(separator: ", ")
                return "cluster { name: test, listen: \"127.0.0.1:\(routePort)\", routes: [\(routes)] }"
            } ?? ""
        let security = options.certificate.map { "tls { cert_file: \"\($0.file)\", key_file: \"\($0.key)\" }" } ?? ""
        let configuration = """
            server_name: \(name)
            listen: "127.0.0.1:\(port)"
            max_payload: \(options.maximumPayload)
            max_pending: 256MB
            \(security)
            \(jetStream)
            \(cluster)
            system_account: SYS
            accounts {
              SYS { users: [{ user: system, password: system }] }
              TEST { \(options.hasJetStream ? "jetstream: enabled, " : "")users: [{ user: test, password: test }] }
            }
            no_auth_user: test
            """
        let path = "\(folder)/server.conf"
        try configuration.write(toFile: path, atomically: true, encoding: .utf8)
        let pipe = Pipe()
        let output = Pipe()
        let shell = Process()
        shell.executableURL = URL(filePath: "/bin/bash")
        shell.arguments = [
            "-c",
            """
            "$1" -c "$2" >> "$3/log" 2>&1 < /dev/null &
            # A signal to the whole group of processes must not prevent what follows.
            trap '' HUP INT TERM
            echo $!
            exec > /dev/null
            read -r what
            kill -9 %1 2> /dev/null
            wait
            [[ $what == keep ]] || { rm -rf "$3"; rmdir --ignore-fail-on-non-empty "${3%/*}"; }
            """, "server", Self.program, path, folder,
        ]
        shell.standardInput = pipe
        shell.standardOutput = output
        try shell.run()
        let line = output.fileHandleForReading.readDataToEndOfFile()
        guard let id = pid_t(String(decoding: line, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines))
        else {
            throw CocoaError(.executableLoad)
        }
        (self.shell, self.pipe, processID, isRunning) = (shell, pipe, id, true)
    }

    /// Ends the process by `kill -9`; what it stored stays.
    func kill() {
        guard isRunning else { return }
        Glibc.kill(processID, SIGKILL)
        while Glibc.kill(processID, 0) == 0 { usleep(1_000) }
        isRunning = false
        isPaused = false
    }

    /// Ends the shell, and with it the process.
    private func end(keepingFolder: Bool) {
        guard let shell, let pipe else { return }
        if keepingFolder { pipe.fileHandleForWriting.write(Data("keep\n".utf8)) }
        do { try pipe.fileHandleForWriting.close() } catch { print("the pipe of \(name) cannot be closed: \(error)") }
        shell.waitUntilExit()
        self.shell = nil
        self.pipe = nil
    }

    func pause() {
        Glibc.kill(processID, SIGSTOP)
        isPaused = true
    }

    func resume() {
        guard isPaused else { return }
        Glibc.kill(processID, SIGCONT)
        isPaused = false
    }

    /// The end of what the server has logged.
    var log: String {
        let text = (try? String(contentsOfFile: "\(folder)/log", encoding: .utf8)) ?? ""
        return text.split(separator: "\n").suffix(30).joined(separator: "\n")
    }

    /// A port that no process listens to now.
    private static func freePort() throws -> UInt16 {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, length) == 0 && getsockname(descriptor, $0, &length) == 0
            }
        }
        guard isBound else { throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO) }
        return UInt16(bigEndian: address.sin_port)
    }
}

struct Timeout: Error { let what: String }

/// Waits for a condition that nothing announces, as long as a test waits.
func waitUntil(_ what: String, _ condition: () throws -> Bool) throws {
    let deadline = ContinuousClock.now + Patience.duration
    while try !condition() {
        guard ContinuousClock.now < deadline else { throw Timeout(what: what) }
        usleep(20_000)
    }
}

/// The error that a call throws.
func failure<Result>(_ call: () throws(ReplicationError) -> Result) -> ReplicationError? {
    do throws(ReplicationError) {
        _ = try call()
        return nil
    } catch {
        return error
    }
}
#endif
