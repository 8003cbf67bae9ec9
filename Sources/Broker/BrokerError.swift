package import BrokerJSON

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

/// Why a call to a broker failed.
///
/// ``code`` says what to do; the article *Errors and what to do* has a table of all codes. Besides this error, a call throws
/// `CancellationError` when its task is cancelled. For a job that has one meaning, with a server and embedded: the job has no
/// effect. It was not sent, or it was cancelled before its merge began. When it was too late for that, the call ends as if its
/// task were not cancelled; when the job's end is not known, the call ends with ``Code/outcomeUnknown``.
public struct BrokerError: Error, Sendable, CustomStringConvertible {
    /// What to do about it.
    public var code: Code
    /// For people: what happened and the remedy.
    public var message: String
    /// The job that the error is about.
    public var jobID: JobID?
    /// The job's position in the order of all jobs; nil when it was refused before it had one.
    public var sequence: Int64?
    /// The fault as the server reported it, or the fault of a JSON text of the caller.
    public var fault: Fault?
    /// When to try again, with ``Code/busy``.
    public var retryAfter: Duration?
    /// The error that led to this one.
    public var cause: (any Error)?
    /// The part of the message that says why, without the remedy.
    package var reason: String?

    /// An error, as doubles of a broker throw it.
    public init(
        _ code: Code, _ message: String, jobID: JobID? = nil, fault: Fault? = nil, cause: (any Error)? = nil
    ) {
        self.code = code
        self.message = message
        self.jobID = jobID
        self.fault = fault
        self.cause = cause
    }

    /// The job may have been applied or not. Send it again under the same id, which applies it once, or ask for its
    /// outcome with ``BrokerService/completion(of:)``.
    public var isOutcomeUnknown: Bool { code == .outcomeUnknown }

    /// Nothing for a fault of the whole job, whose path is empty.
    package static func place(_ path: String?) -> String { path.flatMap { $0.isEmpty ? nil : " at \($0)" } ?? "" }

    public var description: String {
        guard let fault else { return message }
        return "\(code)\(Self.place(fault.path)): \(message)"
    }
}

extension BrokerError: LocalizedError {
    public var errorDescription: String? { description }
}

extension BrokerError: Equatable {
    /// Whether everything but the ``cause`` is equal.
    public static func == (one: BrokerError, other: BrokerError) -> Bool {
        one.code == other.code && one.message == other.message && one.jobID == other.jobID
            && one.sequence == other.sequence && one.fault == other.fault && one.retryAfter == other.retryAfter
    }
}

extension BrokerError {
    /// A fault, and its position.
    public struct Fault: Sendable, Equatable, CustomStringConvertible {
        /// The protocol's code.
        public var code: Code
        /// For people: what happened and the remedy.
        public var message: String
        /// A JSON Pointer into the message that was sent: `/json/3/hired_at`, or `/operations/1/json/…` of a job with several
        /// operations.
        public var path: String?
        /// The entity that it is about.
        public var entity: String?
        /// The attribute that it is about.
        public var attribute: String?
        /// The line of a JSON fault in the caller's text, from 1.
        public var line: Int?
        /// The column of a JSON fault in bytes, from 1.
        public var column: Int?
        /// The offset of a JSON fault in bytes, from 0.
        public var offset: Int?
        /// With ``Code/gone``: the feed can be read after this sequence, and no older one.
        public var oldest: Int64?
        /// With ``Code/conflict``: the object as the operation found it, with its `_version`; null without one, and nil when it is
        /// longer than 4 KiB.
        public var object: RawJSON?

        /// A fault without a position in a text.
        public init(code: Code, message: String, path: String? = nil, entity: String? = nil, attribute: String? = nil) {
            self.code = code
            self.message = message
            self.path = path
            self.entity = entity
            self.attribute = attribute
        }

        public var description: String { "\(code)\(BrokerError.place(path)): \(message)" }
    }
}

extension BrokerError.Fault {
    /// A body without a code is still an error, so nothing throws here.
    package init(_ error: JSONValue) {
        self.init(
            code: BrokerError.Code(rawValue: error["code"]?.string ?? ""), message: error["message"]?.string ?? "",
            path: error["path"]?.string, entity: error["entity"]?.string, attribute: error["attribute"]?.string)
        line = error.count("line")
        column = error.count("column")
        offset = error.count("offset")
        oldest = error["oldest"]?.int64
        object = error["object"].map { RawJSON($0.jsonText) }
    }
}

// The errors of the libraries, with their texts.
extension BrokerError {
    package static func cannotConnect(path: String, reason: String) -> BrokerError {
        BrokerError(.cannotConnect, "Cannot connect to \(path): \(reason).")
    }

    package static func connectionLost(_ reason: String) -> BrokerError {
        var error = BrokerError(
            .connectionLost, "The connection was lost: \(reason). Ask again when the server is back.")
        error.reason = reason
        return error
    }

    /// The job was sent, and its end is not known.
    ///
    /// - Parameter what: a sentence that says why.
    package static func outcomeUnknown(_ id: JobID, _ what: String, cause: BrokerError? = nil) -> BrokerError {
        let remedy =
            id.text.isEmpty
            ? "The outcome of the job, which has no id, is not known: look for what it would have done."
            : "The outcome of the job \"\(id)\" is not known: `await` that id to learn it, or send the job again under "
                + "the same id, which applies it once."
        return BrokerError(.outcomeUnknown, "\(what) \(remedy)", jobID: id, cause: cause)
    }

    /// The answer is no message, or the server could not send it.
    package static func outcomeUnknown(_ id: JobID, noAnswer reason: String) -> BrokerError {
        outcomeUnknown(id, "The server's answer was not received: \(reason)", cause: protocolViolation(reason))
    }

    package static func waitCancelled(_ id: JobID) -> BrokerError {
        outcomeUnknown(
            id, "The task that waited for the job was cancelled.",
            cause: BrokerError(.waitCancelled, "The task was cancelled; the job continues."))
    }

    /// The task of a job that had been accepted was cancelled, before its merge began.
    package static let jobCancelled = BrokerError(
        .cancelled, "The job was cancelled before its merge began, and has changed nothing. Sent again, it runs again.")

    /// The task that waited for the answer to a request that changes something was cancelled.
    package static let actionWaitCancelled = BrokerError(
        .outcomeUnknown, "The task was cancelled before the answer came, and the action may have been done.",
        cause: BrokerError(.waitCancelled, "The task was cancelled; the action goes on."))

    /// The meaning of this error for a job that was sent.
    package func doubting(_ id: JobID) -> BrokerError {
        switch code {
        case .outcomeUnknown: self
        case .closed: .outcomeUnknown(id, "The client was closed before the answer came.", cause: self)
        case .connectionLost:
            .outcomeUnknown(id, "The connection was lost: \(reason ?? message).", cause: self)
        default: .outcomeUnknown(id, "The connection was lost: \(self).", cause: self)
        }
    }

    package static func tooLarge(_ reason: String) -> BrokerError { BrokerError(.tooLarge, reason) }

    package static func notEncodable(_ reason: String) -> BrokerError {
        BrokerError(.notEncodable, "The records cannot be written as JSON: \(reason).")
    }

    package static func invalidJSON(_ fault: Fault) -> BrokerError {
        BrokerError(.invalidJSON, fault.message, fault: fault)
    }

    package static func idInUse(_ id: JobID) -> BrokerError {
        BrokerError(
            .idInUse, "A job with the id \"\(id)\" is unanswered; await it, or choose another id.", jobID: id)
    }

    package static func invalidID(_ id: JobID) -> BrokerError {
        BrokerError(.invalidID, "An id has 1 to 128 bytes; the job's has \(id.text.utf8.count).", jobID: id)
    }

    package static func protocolViolation(_ reason: String) -> BrokerError {
        BrokerError(.protocolViolation, "The server's answer does not follow this protocol: \(reason)")
    }

    package static let closed = BrokerError(
        .closed, "The client was closed, and nothing was sent. Connect a new client and call again.")

    /// The error that a server, or the coordinator, reports.
    package static func reported(
        _ fault: Fault, jobID: JobID? = nil, sequence: Int64? = nil, retryAfter: Duration? = nil
    ) -> BrokerError {
        let isTooLarge = [.frameTooLarge, .contentTooLarge].contains(fault.code)
        var error = BrokerError(isTooLarge ? .tooLarge : fault.code, fault.message, jobID: jobID, fault: fault)
        error.sequence = sequence
        error.retryAfter = retryAfter
        return error
    }

    /// The error of an `error` object that a server, or the store, has written.
    package static func reported(_ error: JSONValue, jobID: JobID?, sequence: Int64?) -> BrokerError {
        reported(
            Fault(error), jobID: jobID, sequence: sequence,
            retryAfter: error["retryAfterMilliseconds"]?.int64.map { .milliseconds($0) })
    }

    /// The meaning of a reported error for a job that failed or was refused.
    package var ofJob: BrokerError {
        // Such a job must be split: to send it again is of no use. Only a sync in parts waits for others to end.
        guard code == .busy, fault?.path?.hasSuffix("/part") != true else { return self }
        var error = self
        error.code = .tooLarge
        error.retryAfter = nil
        return error
    }
}

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
    /// A type and the model differ: ``BrokerService/check(_:timeout:)``; a line of the message for each difference.
    public static let modelMismatch = Self(rawValue: "modelMismatch")
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
    package static let frameTooLarge = Self(rawValue: "frameTooLarge")
    package static let contentTooLarge = Self(rawValue: "contentTooLarge")
    /// The server could not read the frame of a message. The connection was closed.
    public static let malformedFrame = Self(rawValue: "malformedFrame")
    /// The server could not decompress a message. The connection was closed.
    public static let malformedLZ4 = Self(rawValue: "malformedLZ4")
    /// The server could not parse a message.
    public static let malformedJSON = Self(rawValue: "malformedJSON")
    /// The server does not know a part of the call; the fault's path says which.
    public static let unsupportedMessage = Self(rawValue: "unsupportedMessage")
    /// The server does not know this version of the protocol.
    public static let unsupportedVersion = Self(rawValue: "unsupportedVersion")

    // Jobs and connections.
    /// No job of that id is known, or it belongs to another user.
    public static let unknownJob = Self(rawValue: "unknownJob")
    /// A job of that id and other content was applied.
    public static let idConflict = Self(rawValue: "idConflict")
    /// An object is not as the job ``Job/Operation/expectation`` says. Nothing was changed. ``BrokerError/Fault/object`` has it.
    public static let conflict = Self(rawValue: "conflict")
    /// The job whose cancellation was asked for is being merged, or has ended.
    public static let tooLate = Self(rawValue: "tooLate")
    /// There is no room for the call now. Wait for ``BrokerError/retryAfter``.
    public static let busy = Self(rawValue: "busy")
    /// The server, or the embedded broker, is stopping and accepts nothing more.
    public static let draining = Self(rawValue: "draining")
    /// The job was cancelled by its id. It has no effect.
    public static let cancelled = Self(rawValue: "cancelled")
    /// This user may not use the server, or not do this.
    public static let unauthorized = Self(rawValue: "unauthorized")

    // Records and the model.
    /// The model has no entity of that name; case matters.
    public static let unknownEntity = Self(rawValue: "unknownEntity")
    /// The entity has no such attribute to sort by or to select.
    public static let unknownAttribute = Self(rawValue: "unknownAttribute")
    /// The entity has no relationship of that name; case matters.
    public static let unknownRelationship = Self(rawValue: "unknownRelationship")
    /// The model has no mapping of that name; case matters.
    public static let unknownMapping = Self(rawValue: "unknownMapping")
    /// No route and no mapping of the model fits the payload.
    public static let unmappable = Self(rawValue: "unmappable")
    /// A value is of another kind than its attribute, or would lose information.
    public static let invalidValue = Self(rawValue: "invalidValue")
    /// A required attribute is null or missing.
    public static let missingValue = Self(rawValue: "missingValue")
    /// A record has no value for its identity.
    public static let missingIdentity = Self(rawValue: "missingIdentity")
    /// The model names none of the record's keys.
    public static let noKnownKey = Self(rawValue: "noKnownKey")
    /// With ``Job/UnknownKeys/fail``: the model does not name a key of the record.
    public static let unknownKey = Self(rawValue: "unknownKey")
    /// The object of an operation, or of a bare key, does not exist.
    public static let objectNotFound = Self(rawValue: "objectNotFound")
    /// A value is outside of the limits of the model, or a handler refused it.
    public static let validationFailed = Self(rawValue: "validationFailed")
    /// A unique value is taken, or a delete rule prevents the deletion.
    public static let constraintViolation = Self(rawValue: "constraintViolation")
    /// The job would delete more objects than its ``Job/maximumDeletions``. Nothing was changed.
    public static let tooManyDeletions = Self(rawValue: "tooManyDeletions")
    /// The predicate cannot be read, or names what the model does not have.
    public static let invalidPredicate = Self(rawValue: "invalidPredicate")
    /// The payload is an error of the server that sent it; the message is its text.
    public static let remoteError = Self(rawValue: "remoteError")

    // Reading.
    /// The commits after that sequence are no longer known. Follow again without a sequence, then fetch all objects.
    public static let gone = Self(rawValue: "gone")
    /// A streamed fetch was read more slowly than the server holds its snapshot. Fetch again.
    public static let snapshotExpired = Self(rawValue: "snapshotExpired")

    /// This server has not applied everything up to ``Query/minimumSequence`` within its time. Ask again.
    public static let notYet = Self(rawValue: "notYet")

    // The server and its store.
    /// The disk of the store is full.
    public static let storeFull = Self(rawValue: "storeFull")
    /// The store cannot be read or written now.
    public static let storeUnavailable = Self(rawValue: "storeUnavailable")
    /// An error of the server itself. Treat codes that you do not know like it.
    public static let `internal` = Self(rawValue: "internal")
}
