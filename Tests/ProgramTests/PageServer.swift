import Foundation
import Synchronization

/// An HTTP server with scripted answers, on a port of this machine. One connection at a time, one request on each.
final class PageServer: Sendable {
    struct Request {
        /// With the query.
        let target: String
        /// By name, in lower case.
        let fields: [String: String]
    }

    private let descriptor: Int32
    let port: UInt16
    private let requests = Mutex<[Request]>([])
    private let answer: @Sendable (Request) -> String
    private let rest: @Sendable (Request) -> [UInt8]

    /// - Parameters:
    ///   - answer: the bytes of the response to a request.
    ///   - rest: more bytes of it, requested again and again until there are none, or the client closes the connection.
    init(
        rest: @escaping @Sendable (Request) -> [UInt8] = { _ in [] }, _ answer: @escaping @Sendable (Request) -> String
    ) throws {
        self.answer = answer
        self.rest = rest
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let (socket, length) = (descriptor, size)
        let isBound = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(socket, $0, length) == 0 && listen(socket, 16) == 0 && getsockname(socket, $0, &size) == 0
            }
        }
        guard isBound else { throw Programs.Failure(what: "no port can be had") }
        port = UInt16(bigEndian: address.sin_port)
        Thread.detachNewThread { [self] in
            while true {
                let connection = accept(socket, nil, nil)
                guard connection >= 0 else { return }
                serve(connection)
                close(connection)
            }
        }
    }

    /// Ends the thread, which holds the server.
    func stop() {
        shutdown(descriptor, Int32(SHUT_RDWR))
        close(descriptor)
    }

    func url(_ target: String, host: String = "127.0.0.1") -> String { "http://\(host):\(port)\(target)" }

    /// The requests since the last call.
    func taken() -> [Request] {
        requests.withLock { requests in
            defer { requests = [] }
            return requests
        }
    }

    static func response(_ status: Int = 200, _ fields: [String] = [], _ body: String = "") -> String {
        let length = fields.contains { $0.hasPrefix("Content-Length") } ? [] : ["Content-Length: \(body.utf8.count)"]
        return (["HTTP/1.1 \(status) X", "Connection: close"] + fields + length + ["", body]).joined(separator: "\r\n")
    }

    private func serve(_ connection: Int32) {
        var text = ""
        var buffer = [UInt8](repeating: 0, count: 4_096)
        while !text.contains("\r\n\r\n") {
            let count = recv(connection, &buffer, buffer.count, 0)
            guard count > 0 else { return }
            text += String(decoding: buffer.prefix(count), as: UTF8.self)
        }
        let lines = text.components(separatedBy: "\r\n")
        var fields: [String: String] = [:]
        for line in lines.dropFirst() {
            let parts = line.split(separator: ":", maxSplits: 1)
            guard parts.count == 2 else { continue }
            fields[parts[0].lowercased()] = parts[1].trimmingCharacters(in: .whitespaces)
        }
        let words = lines[0].split(separator: " ")
        guard words.count == 3 else { return }
        let request = Request(target: String(words[1]), fields: fields)
        requests.withLock { $0.append(request) }
        var bytes = Array(answer(request).utf8)
        while !bytes.isEmpty, send(connection, bytes, bytes.count, Int32(MSG_NOSIGNAL)) > 0 { bytes = rest(request) }
    }
}
