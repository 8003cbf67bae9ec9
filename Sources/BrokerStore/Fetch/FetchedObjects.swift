internal import BrokerJSON
public import BrokerModel

/// What is to stand around the objects that a fetch finds, so that an answer need not be copied to be complete.
public struct FetchEnvelope: Sendable {
    public let beginning: [UInt8]
    public let ending: @Sendable (_ hasMore: Bool) -> [UInt8]

    public init(beginning: [UInt8], ending: @escaping @Sendable (_ hasMore: Bool) -> [UInt8]) {
        self.beginning = beginning
        self.ending = ending
    }

    /// Nothing.
    public static let none = FetchEnvelope(beginning: []) { _ in [] }
}

/// What a fetch found, as JSON text.
public struct FetchedObjects: Sendable {
    /// The objects in the form that was asked for, in their envelope.
    public private(set) var bytes: [UInt8]
    /// There are more objects than these.
    public private(set) var hasMore: Bool
    /// Where the last object ends that fits any frame, where not all of them may.
    private let certainEnd: Int?
    private let closing: [UInt8]
    private let envelope: FetchEnvelope

    /// - Parameters:
    ///   - bytes: from the beginning of the envelope to the last object.
    ///   - closing: the end of the array or object around them.
    ///   - certainEnd: behind an object; nil when all of them fit.
    init(
        _ bytes: consuming [UInt8], closing: [UInt8], _ envelope: FetchEnvelope, hasMore: Bool, certainEnd: Int?
    ) {
        bytes += closing
        bytes += envelope.ending(hasMore)
        self.bytes = bytes
        self.closing = closing
        self.envelope = envelope
        self.hasMore = hasMore
        self.certainEnd = certainEnd
    }

    /// The first of these objects, so few that any frame holds them; nil when these are such already.
    public var shortened: FetchedObjects? {
        guard let certainEnd else { return nil }
        return FetchedObjects(Array(bytes[..<certainEnd]), closing: closing, envelope, hasMore: true, certainEnd: nil)
    }
}

/// How much a fetch may read and hold.
public struct FetchLimits: Sendable {
    /// Bytes of what is told; objects that do not fit are left for another fetch.
    public var answerBytes: Int
    /// Bytes of an answer that every frame holds, also where nothing in them can be compressed.
    public var certainBytes: Int
    /// Bytes of the objects that are gathered before they are nested in one another.
    public var gatheredBytes: Int
    /// Steps of SQLite's machine; nil for any number.
    public var steps: Int?
    /// Of a processor; nil for any time. Patterns take it that are no steps.
    public var microseconds: Int64?

    public init(
        answerBytes: Int, certainBytes: Int, gatheredBytes: Int, steps: Int? = nil, microseconds: Int64? = nil
    ) {
        self.answerBytes = answerBytes
        self.certainBytes = certainBytes
        self.gatheredBytes = gatheredBytes
        self.steps = steps
        self.microseconds = microseconds
    }

    /// An answer of ordinary JSON that a frame holds, within memory that a server can spare. One at a time.
    public static let long = FetchLimits(answerBytes: 32 << 20, certainBytes: 15 << 20, gatheredBytes: 16 << 20)
    /// Some milliseconds' worth: what many clients ask for at once is answered within a second.
    public static let brief = FetchLimits(
        answerBytes: 256 << 10, certainBytes: 256 << 10, gatheredBytes: 512 << 10, steps: 1_000_000,
        microseconds: 10_000)
}

/// Why a fetch told nothing.
public enum FetchFailure: Error, Sendable {
    case fault(Fault)
    case store(StoreError)
    /// It is longer than its limits allow: to be done again with others.
    case tooLong
    /// Nobody wants it any more.
    case stopped
}
