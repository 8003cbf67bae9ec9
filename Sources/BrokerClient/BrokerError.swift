package import BrokerWire

/// Why a call to a ``BrokerClient`` failed.
///
/// Besides these, a call throws `CancellationError` when its task is cancelled. For a job it has one meaning, with a
/// server and embedded: the job has no effect. It was not sent, or it was cancelled before its merge began. When it was
/// too late for that, the call ends as if its task were not cancelled; when the job's end is not known, the call ends
/// with ``outcomeUnknown(id:cause:)``.
public enum BrokerError: Error, Sendable, Equatable, CustomStringConvertible {
    /// There is no server at that socket, or it refuses the user. Nothing was sent.
    case cannotConnect(path: String, reason: String)
    /// The connection was lost and could not be restored in time. A job that fails with this error was not sent. An
    /// action of ``BrokerClient/administer(_:)`` may have been done.
    case connectionLost(reason: String)
    /// The job was sent, and the server's answer is not available. Whether the job was or will be applied is not known.
    case outcomeUnknown(id: String, cause: UnknownOutcomeCause)
    /// The job was refused or failed; it changed nothing.
    case failed(JobFailure)
    /// The message was not understood, or the connection is not wanted; nothing was changed.
    case refused(Fault)
    /// The message is larger than a frame may be. Nothing was sent.
    case tooLarge(reason: String)
    /// The records cannot be written as JSON. Nothing was sent.
    case notEncodable(reason: String)
    /// A JSON text of the caller is not exactly one JSON value. Nothing was sent. The fault's path says where in the message
    /// the text would be; its line, column and offset are places in the text.
    case invalidJSON(Fault)
    /// A job of this id is unanswered on this client. Nothing was sent.
    case idInUse(String)
    /// An id has 1 to 128 bytes. Nothing was sent.
    case invalidID(String)
    /// The peer does not use the protocol; the connection was closed.
    case protocolViolation(reason: String)
    /// The client was closed. A job that fails with this error was not sent.
    case closed

    /// The fault, if the server reported one or a JSON text is invalid.
    public var fault: Fault? {
        switch self {
        case .failed(let failure): failure.fault
        case .refused(let fault), .invalidJSON(let fault): fault
        default: nil
        }
    }

    /// ``fault``'s code.
    public var code: Code? { fault?.code }

    /// The job may have been applied or not. Send it again under the same id, which applies it once, or ask for its
    /// outcome with ``BrokerClient/await(id:)``.
    public var isOutcomeUnknown: Bool {
        switch self {
        case .outcomeUnknown: true
        default: false
        }
    }

    public var description: String {
        switch self {
        case .cannotConnect(let path, let reason): "Cannot connect to \(path): \(reason)."
        case .connectionLost(let reason): "The connection was lost: \(reason). Ask again when the server is back."
        case .outcomeUnknown("", let cause):
            "\(cause) The outcome of the job, which has no id, is not known: look for what it would have done."
        case .outcomeUnknown(let id, let cause):
            "\(cause) The outcome of the job \"\(id)\" is not known: `await` that id to learn it, or send the job again "
                + "under the same id, which applies it once."
        case .failed(let failure): failure.description
        case .refused(let fault), .invalidJSON(let fault): fault.description
        case .tooLarge(let reason): reason
        case .notEncodable(let reason): "The records cannot be written as JSON: \(reason)."
        case .idInUse(let id): "A job with the id \"\(id)\" is unanswered; await it, or choose another id."
        case .invalidID(let id): "An id has 1 to 128 bytes; the job's has \(id.utf8.count)."
        case .protocolViolation(let reason): "The server's answer is not of this protocol: \(reason)"
        case .closed: "The client was closed, and nothing was sent. Connect a new client and call again."
        }
    }
}

extension BrokerError {
    /// Why the end of a job is not known.
    public enum UnknownOutcomeCause: Sendable, Hashable, CustomStringConvertible {
        /// It could not be restored in time; or the job's task was cancelled, so that it was not sent again.
        case connectionLost(reason: String)
        /// The answer is no message, or the server could not send it.
        case noAnswer(reason: String)
        /// The client was closed after the job was sent.
        case closed
        /// The task that waited for the outcome was cancelled; the job continues.
        case waitCancelled

        public var description: String {
            switch self {
            case .connectionLost(let reason): "The connection was lost: \(reason)."
            case .noAnswer(let reason): "The server's answer could not be had: \(reason)"
            case .closed: "The client was closed before the answer came."
            case .waitCancelled: "The task that waited for the job was cancelled."
            }
        }
    }

    /// A job that was refused or failed.
    public struct JobFailure: Sendable, Hashable, CustomStringConvertible {
        public var id: String
        /// Nil when the job was refused before it had a sequence.
        public var sequence: Int64?
        public var fault: Fault

        public init(id: String, sequence: Int64? = nil, fault: Fault) {
            self.id = id
            self.sequence = sequence
            self.fault = fault
        }

        public var description: String { fault.description }
    }

    /// A fault, its position, and the remedy, as the server reports them.
    public struct Fault: Sendable, Hashable, CustomStringConvertible {
        public var code: Code
        /// For people: what happened and the remedy.
        public var message: String
        /// A JSON Pointer into the message that was sent.
        public var path: String?
        public var entity: String?
        public var attribute: String?
        /// The line of a JSON fault, from 1.
        public var line: Int?
        /// The column of a JSON fault in bytes, from 1.
        public var column: Int?
        /// The offset of a JSON fault in bytes, from 0.
        public var offset: Int?
        /// The advised wait of ``BrokerError/Code/busy``.
        public var retryAfter: Duration?

        public init(code: Code, message: String, path: String? = nil, entity: String? = nil, attribute: String? = nil) {
            self.code = code
            self.message = message
            self.path = path
            self.entity = entity
            self.attribute = attribute
        }

        public var description: String { path.map { "\(code) at \($0): \(message)" } ?? "\(code): \(message)" }
    }

    /// The protocol's code of a fault. A newer server may have more of them; treat those like ``internal``.
    public struct Code: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
        public var rawValue: String

        public init(rawValue: String) { self.rawValue = rawValue }

        public var description: String { rawValue }

        // Frames and messages.
        public static let malformedFrame = Code(rawValue: "malformedFrame")
        public static let frameTooLarge = Code(rawValue: "frameTooLarge")
        public static let malformedLZ4 = Code(rawValue: "malformedLZ4")
        public static let contentTooLarge = Code(rawValue: "contentTooLarge")
        public static let malformedJSON = Code(rawValue: "malformedJSON")
        public static let unsupportedMessage = Code(rawValue: "unsupportedMessage")
        public static let unsupportedVersion = Code(rawValue: "unsupportedVersion")

        // Jobs and connections.
        public static let unknownJob = Code(rawValue: "unknownJob")
        public static let idConflict = Code(rawValue: "idConflict")
        public static let tooLate = Code(rawValue: "tooLate")
        public static let busy = Code(rawValue: "busy")
        public static let draining = Code(rawValue: "draining")
        public static let cancelled = Code(rawValue: "cancelled")
        public static let unauthorized = Code(rawValue: "unauthorized")

        // Records and the model.
        public static let unknownEntity = Code(rawValue: "unknownEntity")
        public static let unknownRelationship = Code(rawValue: "unknownRelationship")
        public static let unknownMapping = Code(rawValue: "unknownMapping")
        public static let unmappable = Code(rawValue: "unmappable")
        public static let invalidValue = Code(rawValue: "invalidValue")
        public static let missingValue = Code(rawValue: "missingValue")
        public static let missingIdentity = Code(rawValue: "missingIdentity")
        public static let noKnownKey = Code(rawValue: "noKnownKey")
        public static let unknownKey = Code(rawValue: "unknownKey")
        public static let objectNotFound = Code(rawValue: "objectNotFound")
        public static let validationFailed = Code(rawValue: "validationFailed")
        public static let constraintViolation = Code(rawValue: "constraintViolation")
        public static let invalidPredicate = Code(rawValue: "invalidPredicate")
        public static let remoteError = Code(rawValue: "remoteError")

        // The server and its store.
        public static let storeFull = Code(rawValue: "storeFull")
        public static let storeUnavailable = Code(rawValue: "storeUnavailable")
        public static let `internal` = Code(rawValue: "internal")
    }
}

// MARK: - From the wire

extension BrokerError.Fault {
    package init(_ error: ErrorBody) {
        self.init(
            code: BrokerError.Code(rawValue: error.code), message: error.message, path: error.path,
            entity: error.entity, attribute: error.attribute)
        line = error.line
        column = error.column
        offset = error.offset
        retryAfter = error.retryAfterMilliseconds.map { .milliseconds($0) }
    }
}
