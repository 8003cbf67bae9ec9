internal import NIOCore

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#elseif canImport(Darwin)
internal import Darwin
#endif

/// Why a connection could not be made or was lost, in words.
enum ConnectionReason {
    static func describe(_ error: any Error) -> String {
        guard let error = error as? IOError else { return "\(error)" }
        return switch error.errnoCode {
        case ENOENT: "there is no such socket; start brokerd, or check the path"
        case ECONNREFUSED: "no server listens on it; start brokerd"
        case EACCES, EPERM: "this user may not open the socket"
        case ENOTSOCK, EPROTOTYPE: "it is not a stream socket"
        case ECONNRESET, EPIPE: "the server closed the connection"
        default: error.description
        }
    }
}
