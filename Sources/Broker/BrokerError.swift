/// Why a call to a broker failed.
///
/// ``code`` says what to do; the article *Errors and what to do* has a table of all codes. Besides this error, a call throws
/// `CancellationError` when its task is cancelled. For a job that has one meaning, with a server and embedded: the job has no
/// effect. It was not sent, or it was cancelled before its merge began. When it was too late for that, the call ends as if its
/// task were not cancelled; when the job's end is not known, the call ends with ``Code/outcomeUnknown``.
public struct BrokerError: Error, Sendable, CustomStringConvertible {
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
    /// outcome with ``BrokerProtocol/await(_:)``.
    public var isOutcomeUnknown: Bool { code == .outcomeUnknown }

    public var description: String {
        guard let fault else { return message }
        return fault.path.map { "\(code) at \($0): \(message)" } ?? "\(code): \(message)"
    }
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
    public struct Fault: Sendable, Hashable, CustomStringConvertible {
        /// The protocol's code.
        public var code: Code
        /// For people: what happened and the remedy.
        public var message: String
        /// A JSON Pointer into the message that was sent: `/json/3/hired_at`, or `/operations/1/json/…` of a job with several
        /// operations.
        public var path: String?
        public var entity: String?
        public var attribute: String?
        /// The line of a JSON fault in the caller's text, from 1.
        public var line: Int?
        /// The column of a JSON fault in bytes, from 1.
        public var column: Int?
        /// The offset of a JSON fault in bytes, from 0.
        public var offset: Int?
        /// With ``Code/gone``: the feed can be read after this sequence, and no older one.
        public var oldest: Int64?

        public init(code: Code, message: String, path: String? = nil, entity: String? = nil, attribute: String? = nil) {
            self.code = code
            self.message = message
            self.path = path
            self.entity = entity
            self.attribute = attribute
        }

        public var description: String { path.map { "\(code) at \($0): \(message)" } ?? "\(code): \(message)" }
    }
}
