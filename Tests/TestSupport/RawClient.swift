package import BrokerJSON
package import BrokerWire
internal import Foundation

/// A client that sends whatever bytes it likes over a plain socket, and waits where it reads.
// One thread may send while another receives; what is unread is the receiver's alone.
public final class RawClient: @unchecked Sendable {
    public struct Failure: Error {
        let what: String
        /// The other side is there, but has not answered, or read, for as long as the client's patience lasted.
        public var isTimeout = false
    }

    private let descriptor: Int32
    private var unread: [UInt8] = []

    public init(_ path: String) throws {
        descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let size = socklen_t(MemoryLayout<sockaddr_un>.size)
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { Glibc.connect(descriptor, $0, size) }
        }
        guard result == 0 else { throw Failure(what: "cannot connect to \(path)") }
        // A test that waits in vain must end.
        setPatience(seconds: Patience.seconds)
    }

    /// The other side of a connection that a test accepted.
    public init(descriptor: Int32) { self.descriptor = descriptor }

    /// How long reading and writing may take.
    public func setPatience(seconds: Int) {
        var patience = timeval(tv_sec: seconds, tv_usec: 0)
        for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
            setsockopt(descriptor, SOL_SOCKET, option, &patience, socklen_t(MemoryLayout<timeval>.size))
        }
    }

    deinit { close(descriptor) }

    public func send(bytes: [UInt8]) throws {
        var sent = 0
        while sent < bytes.count {
            let count = bytes.withUnsafeBytes {
                Glibc.send(descriptor, $0.baseAddress! + sent, $0.count - sent, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { throw Failure(what: "cannot send") }
            sent += count
        }
    }

    public func send(_ json: String) throws { try send(bytes: Self.frame(Array(json.utf8))) }

    public func endSending() { shutdown(descriptor, Int32(SHUT_WR)) }

    /// The next message; nil when the server has closed.
    public func receive() throws -> Message? {
        while true {
            if let message = try takeRead() { return message }
            var buffer = [UInt8](repeating: 0, count: 64 << 10)
            let count = read(descriptor, &buffer, buffer.count)
            guard count >= 0 else {
                throw Failure(what: "nothing to read: \(String(cString: strerror(errno)))", isTimeout: errno == EAGAIN)
            }
            if count == 0 { return nil }
            unread += buffer.prefix(count)
        }
    }

    /// The next message if it has been read whole already.
    public func takeRead() throws -> Message? {
        let scan = try unread.withUnsafeBytes { try FrameScanner.scan($0) }
        guard case .frame(let payload) = scan else { return nil }
        var decoder = FrameDecoder()
        let content = try unread.withUnsafeBytes { try decoder.decode(UnsafeRawBufferPointer(rebasing: $0[payload])) }
        unread.removeFirst(payload.upperBound)
        return try Message(content)
    }

    /// The next message, which must come.
    public func next() throws -> Message {
        guard let message = try receive() else { throw Failure(what: "the server closed the connection") }
        return message
    }

    /// Sends a message and waits for the next one.
    public func ask(_ json: String) throws -> Message {
        try send(json)
        return try next()
    }

    public static func frame(_ content: [UInt8]) throws -> [UInt8] {
        var encoder = FrameEncoder()
        return try encoder.encode(content)
    }
}

/// A message of the server's, looked at by key paths.
public struct Message: Sendable {
    public let text: String
    private let document: JSONDocument

    /// A message that was stored as text.
    public init(text: String) throws { try self.init(JSONText(copying: Array(text.utf8))) }

    fileprivate init(_ content: JSONText) throws {
        text = String(decoding: content.bytes, as: UTF8.self)
        document = try JSONDocument(parsing: content)
    }

    /// The value at that path of keys and array positions, as text: strings without quotes, the rest as JSON.
    public subscript(_ path: String) -> String? { value(path).map { String(decoding: $0.bytes, as: UTF8.self) } }

    /// The keys of the object at that path; none without one.
    public func keys(_ path: String) -> [String] {
        value(path)?.members.map { String(decoding: $0.key.bytes, as: UTF8.self) } ?? []
    }

    private func value(_ path: String) -> JSONValue? {
        var value = document.root
        for key in path.split(separator: ".").map(String.init) {
            if value.kind == .array {
                guard let position = Int(key), let element = Array(value.elements).dropFirst(position).first else {
                    return nil
                }
                value = element
            } else {
                guard let member = value[key] else { return nil }
                value = member
            }
        }
        return value
    }

    public var type: String { self["type"] ?? "" }
    public var code: String { self["error.code"] ?? "" }
    public var sequence: Int { self["sequence"].flatMap { Int($0) } ?? 0 }
}

/// How long a test waits for what must come before it fails: far longer than anything takes on an idle machine.
///
/// `scripts/test` measures how much longer the machine takes now, and says so in `BROKER_TEST_SCALE`.
public enum Patience {
    /// At least 1.
    public static let scale = ProcessInfo.processInfo.environment["BROKER_TEST_SCALE"].flatMap { Int($0) } ?? 1

    public static let seconds = 60 * scale
    public static let microseconds = Int64(seconds) * 1_000_000
    public static let duration = Duration.seconds(seconds)
}

/// A `completed` as the server writes it.
public func completedMessage(
    id: String, sequence: Int64, isDuplicate: Bool, members: [UInt8], tag: [UInt8]? = nil
) -> [UInt8] {
    var writer = JSONWriter(capacity: 0)
    MessageWriter.writeCompleted(
        id: id, sequence: sequence, isDuplicate: isDuplicate, members: members, tag: tag, to: &writer)
    return writer.bytes
}

extension ClientEnvelope {
    /// Parses the content of a frame and reads the message in it, whatever memory that takes.
    package static func decode(parsing text: JSONText) throws(WireError) -> ClientEnvelope {
        let document: JSONDocument
        do {
            document = try JSONDocument(parsing: text)
        } catch {
            throw WireError(error, in: text)
        }
        return try decode(document)
    }
}
