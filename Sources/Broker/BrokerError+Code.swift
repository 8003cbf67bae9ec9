extension BrokerError {
    /// The kind of an error. A newer server may have codes that are not listed here; treat those like ``internal``.
    public struct Code: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
        public var rawValue: String

        public init(rawValue: String) { self.rawValue = rawValue }

        public var description: String { rawValue }
    }
}

// MARK: - Of the library

extension BrokerError.Code {
    /// There is no server at that socket, or it refuses the user. Nothing was sent.
    public static let cannotConnect = Self(rawValue: "cannotConnect")
    /// The connection was lost and could not be restored in time. A job that fails with this code was not sent. An
    /// administrative action may have been done.
    public static let connectionLost = Self(rawValue: "connectionLost")
    /// The job was sent, and the server's answer is not available. Whether the job was or will be applied is not known.
    public static let outcomeUnknown = Self(rawValue: "outcomeUnknown")
    /// The call's `timeout` is over. A job has no effect then; see ``outcomeUnknown`` for one that may have.
    public static let timedOut = Self(rawValue: "timedOut")
    /// The message is larger than a server takes, or the job needs more memory or work than one job may: send its records as several
    /// jobs. The fault has the server's code.
    public static let tooLarge = Self(rawValue: "tooLarge")
    /// The records cannot be written as JSON. Nothing was sent.
    public static let notEncodable = Self(rawValue: "notEncodable")
    /// A JSON text of the caller is not exactly one JSON value. Nothing was sent. The fault's path says where in the message
    /// the text would be; its line, column and offset are places in the text.
    public static let invalidJSON = Self(rawValue: "invalidJSON")
    /// A job of this id is unanswered on this client. Nothing was sent.
    public static let idInUse = Self(rawValue: "idInUse")
    /// An id has 1 to 128 bytes. Nothing was sent.
    public static let invalidID = Self(rawValue: "invalidID")
    /// The peer does not use the protocol; the connection was closed.
    public static let protocolViolation = Self(rawValue: "protocolViolation")
    /// The client was closed. A job that fails with this code was not sent.
    public static let closed = Self(rawValue: "closed")
    /// The task that waited for an outcome was cancelled; the job goes on.
    public static let waitCancelled = Self(rawValue: "waitCancelled")
    /// The model is not valid; a line of the message for each fault.
    public static let invalidModel = Self(rawValue: "invalidModel")
    /// The store of an embedded broker cannot be opened: another process owns it, or it does not fit the model.
    public static let cannotOpen = Self(rawValue: "cannotOpen")
    /// The answer has no keys or no objects: the job is a duplicate, they are too large, or they were not asked for.
    public static let notReturned = Self(rawValue: "notReturned")
    /// The embedded broker, or a server of an earlier version, does not offer this.
    public static let unsupported = Self(rawValue: "unsupported")
}

// MARK: - Of the protocol

extension BrokerError.Code {
    // Frames and messages. What is too large is ``tooLarge``.
    public static let malformedFrame = Self(rawValue: "malformedFrame")
    public static let malformedLZ4 = Self(rawValue: "malformedLZ4")
    public static let malformedJSON = Self(rawValue: "malformedJSON")
    public static let unsupportedMessage = Self(rawValue: "unsupportedMessage")
    public static let unsupportedVersion = Self(rawValue: "unsupportedVersion")

    // Jobs and connections.
    public static let unknownJob = Self(rawValue: "unknownJob")
    public static let idConflict = Self(rawValue: "idConflict")
    public static let tooLate = Self(rawValue: "tooLate")
    public static let busy = Self(rawValue: "busy")
    public static let draining = Self(rawValue: "draining")
    public static let cancelled = Self(rawValue: "cancelled")
    public static let unauthorized = Self(rawValue: "unauthorized")

    // Records and the model.
    public static let unknownEntity = Self(rawValue: "unknownEntity")
    public static let unknownRelationship = Self(rawValue: "unknownRelationship")
    public static let unknownMapping = Self(rawValue: "unknownMapping")
    public static let unmappable = Self(rawValue: "unmappable")
    public static let invalidValue = Self(rawValue: "invalidValue")
    public static let missingValue = Self(rawValue: "missingValue")
    public static let missingIdentity = Self(rawValue: "missingIdentity")
    public static let noKnownKey = Self(rawValue: "noKnownKey")
    public static let unknownKey = Self(rawValue: "unknownKey")
    public static let objectNotFound = Self(rawValue: "objectNotFound")
    public static let validationFailed = Self(rawValue: "validationFailed")
    public static let constraintViolation = Self(rawValue: "constraintViolation")
    /// The job would delete more objects than its ``Job/maximumDeletions``. Nothing was changed.
    public static let tooManyDeletions = Self(rawValue: "tooManyDeletions")
    public static let invalidPredicate = Self(rawValue: "invalidPredicate")
    public static let remoteError = Self(rawValue: "remoteError")

    // Reading.
    /// The commits after that sequence are no longer known. Fetch the objects again, then follow from the newest.
    public static let gone = Self(rawValue: "gone")
    /// The reader was slower than the server waits.
    public static let tooSlow = Self(rawValue: "tooSlow")
    /// A streamed fetch was read more slowly than the server holds its snapshot. Fetch again.
    public static let snapshotExpired = Self(rawValue: "snapshotExpired")

    /// This server has not applied everything up to ``Query/afterSequence`` within its time. Ask again.
    public static let notYet = Self(rawValue: "notYet")

    // The server and its store.
    public static let storeFull = Self(rawValue: "storeFull")
    public static let storeUnavailable = Self(rawValue: "storeUnavailable")
    public static let `internal` = Self(rawValue: "internal")
}
