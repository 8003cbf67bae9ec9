public import BrokerWire

/// Why a call to a ``BrokerClient`` did not do what it was asked.
public enum BrokerError: Error, Sendable, Equatable, CustomStringConvertible {
    /// There is no server at that socket, or it does not let us in. Nothing was sent.
    case cannotConnect(path: String, reason: String)
    /// The connection was lost and could not be had again in time. Whether the job was applied is not known: send it
    /// again under the same id, or ask for its outcome with ``BrokerClient/await(id:)``.
    case connectionLost(reason: String)
    /// The job was refused or went wrong; it changed nothing.
    case failed(FailedMessage)
    /// The message was not understood, or the connection is not wanted.
    case refused(ErrorMessage)
    /// The message is larger than a frame may be. Nothing was sent.
    case tooLarge(WireError)
    /// The records cannot be written as JSON. Nothing was sent.
    case notEncodable(reason: String)
    /// A job of this id is unanswered on this client. Nothing was sent.
    case idInUse(String)
    /// What the server sent is not the protocol; the connection was closed.
    case notUnderstood(WireError)
    /// The calling task was cancelled. The job goes on; its outcome can be asked for by its id.
    case cancelled
    /// The client was closed before the answer came.
    case closed

    public var description: String {
        switch self {
        case .cannotConnect(let path, let reason): "Cannot connect to \(path): \(reason)."
        case .connectionLost(let reason):
            """
            The connection was lost: \(reason). Whether the job was applied is not known; send it again under the same \
            id, which applies it once.
            """
        case .failed(let failed): failed.description
        case .refused(let error): error.description
        case .tooLarge(let error): error.description
        case .notEncodable(let reason): "The records cannot be written as JSON: \(reason)."
        case .idInUse(let id): "A job with the id \"\(id)\" is unanswered; await it, or choose another id."
        case .notUnderstood(let error): "The server's answer is not of this protocol: \(error)"
        case .cancelled: "The task was cancelled while it waited; the job goes on."
        case .closed: "The client was closed."
        }
    }
}
