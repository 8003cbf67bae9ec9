import Glibc

/// The datagram socket of the service manager (sd_notify(3)).
final class NotifySocket: Sendable {
    private let descriptor: Int32

    /// - Parameter address: of a socket in the file system, or with `@` in the abstract namespace (unix(7)).
    /// - Throws: the reason why nothing can be sent there.
    init(_ address: String) throws(Failure) {
        var name = sockaddr_un()
        name.sun_family = sa_family_t(AF_UNIX)
        var bytes = Array(address.utf8)
        // The closing zero is part of a path only.
        guard let first = bytes.first, first == UInt8(ascii: "/") || first == UInt8(ascii: "@"),
            bytes.count < MemoryLayout.size(ofValue: name.sun_path)
        else { throw Failure(reason: "the address is neither an absolute path nor abstract, or it is too long") }
        if first == UInt8(ascii: "@") { bytes[0] = 0 }
        withUnsafeMutableBytes(of: &name.sun_path) { $0.copyBytes(from: bytes) }
        let length = socklen_t(MemoryLayout<sa_family_t>.size + bytes.count)
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw Failure(reason: String(cString: strerror(errno))) }
        let isConnected = withUnsafePointer(to: &name) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(descriptor, $0, length) == 0 }
        }
        guard isConnected else {
            let reason = String(cString: strerror(errno))
            close(descriptor)
            throw Failure(reason: reason)
        }
        self.descriptor = descriptor
    }

    deinit { close(descriptor) }

    struct Failure: Error {
        let reason: String
    }

    /// Sends assignments (`READY=1`), a line each, in one datagram.
    ///
    /// - Returns: false when the manager does not take it now; this never blocks.
    func send(_ assignments: [String]) -> Bool {
        guard !assignments.isEmpty else { return true }
        let bytes = Array(assignments.joined(separator: "\n").utf8)
        return Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL | MSG_DONTWAIT)) >= 0
    }
}
