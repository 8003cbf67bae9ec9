import Foundation
import Testing

/// A nats-server that stores a stream on a disk, and a connection to it.
final class NATSServer {
    private let process: Process
    private let connection: Int32
    private let reader: LineReader

    /// The program that `need_nats` of scripts/install-dependencies installs.
    private static let program: String = {
        var root = URL(filePath: #filePath)
        for _ in 0..<4 { root.deleteLastPathComponent() }
        return root.appending(path: ".build/nats/bin/nats-server").path
    }()

    /// Starts the server and waits for its ports.
    ///
    /// - Parameter syncInterval: nil for the default of nats-server, two minutes.
    init(on disk: MountedDisk, syncInterval: String?) throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "forgetful-nats-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let configuration = """
            listen: "127.0.0.1:-1"
            jetstream { store_dir: "\(disk.mountPoint)/nats", max_file_store: 128MB
              \(syncInterval.map { "sync_interval: \($0)" } ?? "") }
            """
        try configuration.write(toFile: "\(folder)/server.conf", atomically: true, encoding: .utf8)
        let output = Pipe()
        process = try disk.start([Self.program, "-c", "\(folder)/server.conf"], output: output)
        let lines = LineReader(output.fileHandleForReading.fileDescriptor, owner: output)
        var port: UInt16?
        while let line = lines.next() {
            if let found = line.firstMatch(of: /client connections on 127\.0\.0\.1:(\d+)/) { port = UInt16(found.1) }
            if line.hasSuffix("Server is ready") { break }
        }
        connection = try Self.connect(try #require(port))
        reader = LineReader(connection, owner: FileHandle(fileDescriptor: connection, closeOnDealloc: true))
        try #require(reader.next()?.hasPrefix("INFO ") == true)
        try send(#"CONNECT {"verbose": false}"# + "\r\nSUB answer 1\r\n")
    }

    deinit { strike() }

    /// Ends the server as a power cut does.
    func strike() {
        if process.isRunning { process.strike() }
    }

    static func payload(_ number: Int) -> String {
        "message \(number) " + String(repeating: "\(number % 10)", count: number * 7 % 1500)
    }

    func makeStream() throws {
        let answer = try ask("$JS.API.STREAM.CREATE.test", #"{"name": "test", "subjects": ["test"]}"#)
        try #require(answer.contains("\"created\""), "\(answer)")
    }

    /// Publishes messages, each after the acknowledgement of the one before.
    func publish(from start: Int, count: Int) throws {
        for number in start..<start + count {
            let answer = try ask("test", Self.payload(number))
            try #require(answer.contains("\"seq\":\(number + 1)"), "\(answer)")
        }
    }

    /// The count of messages in the stream; 0 when there is no stream.
    func messageCount() throws -> Int {
        let answer = try ask("$JS.API.STREAM.INFO.test", "")
        if answer.contains("stream not found") { return 0 }
        return try #require(answer.firstMatch(of: /"messages":(\d+)/).flatMap { Int($0.1) }, "\(answer)")
    }

    func message(_ sequence: Int) throws -> String {
        let answer = try ask("$JS.API.STREAM.MSG.GET.test", #"{"seq": \#(sequence)}"#)
        let text = try #require(answer.firstMatch(of: /"data":"([^"]*)"/)?.1, "\(answer)")
        return String(decoding: try #require(Data(base64Encoded: String(text))), as: UTF8.self)
    }

    // MARK: - Protocol

    private func ask(_ subject: String, _ payload: String) throws -> String {
        try send("PUB \(subject) answer \(payload.utf8.count)\r\n\(payload)\r\n")
        while true {
            let line = try #require(reader.next()).trimmingCharacters(in: .whitespacesAndNewlines)
            if line == "PING" { try send("PONG\r\n") }
            guard line.hasPrefix("MSG ") else { continue }
            let length = try #require(line.split(separator: " ").last.flatMap { Int($0) })
            return String(decoding: try #require(reader.next(length + 2)).dropLast(2), as: UTF8.self)
        }
    }

    private func send(_ text: String) throws {
        let bytes = Array(text.utf8)
        try #require(Glibc.send(connection, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count)
    }

    private static func connect(_ port: UInt16) throws -> Int32 {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        try #require(result == 0)
        // A server without the stream does not answer.
        var patience = timeval(tv_sec: 30, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        return descriptor
    }
}
