import BrokerJSON
import BrokerWire
import Foundation
import Synchronization
import TestSupport

/// A server that answers each job as a test requests. It answers greetings and `stats` by itself.
final class ScriptedServer: Sendable {
    /// An answer that ends the connection instead.
    static let close = "close"

    let path: String
    private let folder = TemporaryFolder()
    private let listener: Int32
    private let answer: @Sendable (_ job: Int, _ id: String) -> [String]

    /// - Parameter answer: the answers to the n-th job, in order; none leaves it without one.
    init(_ answer: @escaping @Sendable (_ job: Int, _ id: String) -> [String]) {
        self.answer = answer
        path = folder.path("s.sock")
        listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let size = socklen_t(MemoryLayout<sockaddr_un>.size)
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(listener, $0, size) }
        }
        precondition(result == 0 && listen(listener, 16) == 0, "no socket for a test")
        DispatchQueue(label: "scripted").async { [listener, answer] in
            while true {
                let connection = accept(listener, nil, nil)
                guard connection >= 0 else { return }
                DispatchQueue(label: "scripted.connection").async { Self.serve(connection, answer) }
            }
        }
    }

    deinit {
        shutdown(listener, Int32(SHUT_RDWR))
        Glibc.close(listener)
    }

    /// - Returns: when the client has closed.
    private static func serve(_ connection: Int32, _ answer: (Int, String) -> [String]) {
        defer { Glibc.close(connection) }
        var (unread, jobs, buffer) = ([UInt8](), 0, [UInt8](repeating: 0, count: 64 << 10))
        while true {
            while let content = next(&unread) {
                guard let document = try? JSONDocument(parsing: content) else { return }
                var answers: [String]
                switch document.root["type"]?.string ?? "job" {
                case "hello": answers = [#"{"type":"welcome","version":1,"server":"scripted 1"}"#]
                case "stats": answers = [#"{"type":"stats","commits":3,"queues":{"opening":2},"wal":{"bytes":7}}"#]
                default:
                    answers = answer(jobs, document.root["id"]?.string ?? "")
                    jobs += 1
                }
                for answer in answers {
                    guard answer != Self.close else { return }
                    guard let frame = try? RawClient.frame(Array(answer.utf8)) else { return }
                    guard send(connection, frame, frame.count, Int32(MSG_NOSIGNAL)) == frame.count else { return }
                }
            }
            let count = read(connection, &buffer, buffer.count)
            guard count > 0 else { return }
            unread += buffer.prefix(count)
        }
    }

    private static func next(_ unread: inout [UInt8]) -> JSONText? {
        var decoder = FrameDecoder()
        guard case .frame(let payload)? = try? unread.withUnsafeBytes({ try FrameScanner.scan($0) }),
            let content = try? unread.withUnsafeBytes({
                try decoder.decode(UnsafeRawBufferPointer(rebasing: $0[payload]))
            })
        else { return nil }
        unread.removeFirst(payload.upperBound)
        return content
    }
}
