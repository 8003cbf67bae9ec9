internal import NIOCore

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#elseif canImport(Darwin)
internal import Darwin
#endif

/// A connection's socket beside its channel, to be written to by whoever has a frame: a lone job's frame need not wait until
/// the event loop is awake.
///
/// It is a descriptor of its own, so that it is open as long as this is, whatever becomes of the channel; the connection
/// ends when both are closed.
final class DirectSocket: Sendable {
    private let descriptor: CInt

    /// Nil when there is no socket to be had.
    init?(duplicating descriptor: CInt) {
        let duplicate = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
        guard duplicate >= 0 else { return nil }
        self.descriptor = duplicate
    }

    deinit { close(descriptor) }

    /// Writes as much as there is room for, from the beginning. Never waits.
    ///
    /// - Returns: bytes written; 0 also when the connection is gone, which its channel tells.
    func write(_ frame: [UInt8]) -> Int {
        frame.withUnsafeBytes { frame in max(0, send(descriptor, frame.baseAddress, frame.count, Self.flags)) }
    }

    #if canImport(Darwin)
    // A channel's socket has SO_NOSIGPIPE there.
    private static let flags = MSG_DONTWAIT
    #else
    private static let flags = CInt(MSG_DONTWAIT) | CInt(MSG_NOSIGNAL)
    #endif
}

extension ChannelPipeline.SynchronousOperations {
    /// Nil when the channel is no socket's.
    var directSocket: DirectSocket? {
        do {
            return try withUnsafeTransportIfAvailable(of: NIOBSDSocket.Handle.self) {
                DirectSocket(duplicating: $0)
            }.flatMap(\.self)
        } catch {
            // It is closed already, which its handler tells.
            return nil
        }
    }
}
