import BrokerCommandLine
import BrokerJSON
import BrokerWire
import Glibc

/// The names that a server's `welcome` has, asked for on the calling thread: the completion of a command line is not
/// asynchronous.
enum ServerEntities {
    /// Milliseconds for each call: a server that is busy must not make a shell wait.
    private static let patience = 300

    /// Empty when there is no server that answers.
    static func names(ofSocket path: String) -> [String] {
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return [] }
        defer { close(descriptor) }
        var patience = timeval(tv_sec: 0, tv_usec: Self.patience * 1_000)
        for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
            setsockopt(descriptor, SOL_SOCKET, option, &patience, socklen_t(MemoryLayout<timeval>.size))
        }
        var encoder = FrameEncoder()
        guard connect(descriptor, path),
            let hello = try? encoder.encode(Array(#"{"type":"hello","version":1,"client":"broker completion"}"#.utf8)),
            send(descriptor, hello, hello.count, Int32(MSG_NOSIGNAL)) == hello.count,
            let welcome = try? answer(descriptor),
            let document = try? JSONDocument(parsing: welcome)
        else { return [] }
        return withExtendedLifetime(document) { document.root["entities"]?.elements.compactMap(\.string) ?? [] }
    }

    private static func connect(_ descriptor: Int32, _ path: String) -> Bool {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        guard path.utf8.count < MemoryLayout.size(ofValue: address.sun_path) else { return false }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        return withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0
            }
        }
    }

    /// The content of the first frame; nil when the server ends the connection or is silent.
    private static func answer(_ descriptor: Int32) throws -> JSONText? {
        var decoder = FrameDecoder()
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            let count = recv(descriptor, &buffer, buffer.count, 0)
            guard count > 0 else { return nil }
            bytes += buffer.prefix(count)
            let content = try bytes.withUnsafeBytes { bytes -> JSONText? in
                guard case .frame(let payload) = try FrameScanner.scan(bytes) else { return nil }
                return try decoder.decode(UnsafeRawBufferPointer(rebasing: bytes[payload]))
            }
            if let content { return content }
        }
    }
}
