internal import BrokerJSON
package import BrokerModel

/// The text around the objects that a fetch finds, so that a reply need not be copied to be complete.
package struct FetchEnvelope: Sendable {
    package let beginning: [UInt8]
    package let ending: @Sendable (_ hasMore: Bool) -> [UInt8]

    package init(beginning: [UInt8], ending: @escaping @Sendable (_ hasMore: Bool) -> [UInt8]) {
        self.beginning = beginning
        self.ending = ending
    }

    /// No text.
    package static let none = FetchEnvelope(beginning: []) { _ in [] }
}

/// The result of a fetch, as JSON text.
package struct FetchedObjects: Sendable {
    /// The objects in the requested form, in their envelope.
    package private(set) var bytes: [UInt8]
    /// The store has further objects for the request.
    package private(set) var hasMore: Bool
    /// The end of the last object that fits any frame; nil where all of them fit.
    private let certainEnd: Int?
    private let closing: [UInt8]
    private let envelope: FetchEnvelope

    /// - Parameters:
    ///   - bytes: from the beginning of the envelope to the last object.
    ///   - closing: the end of the array or object around them.
    ///   - certainEnd: the offset after an object; nil when all of them fit.
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

    /// The first of these objects, so few that any frame holds them; nil when any frame holds all of them.
    package var shortened: FetchedObjects? {
        guard let certainEnd else { return nil }
        return FetchedObjects(Array(bytes[..<certainEnd]), closing: closing, envelope, hasMore: true, certainEnd: nil)
    }
}

/// Limits of a fetch's reply, memory and time.
package struct FetchLimits: Sendable {
    /// Bytes of the reply; objects that do not fit are left to another fetch.
    package var answerBytes: Int
    /// Bytes of a reply that every frame holds, even if nothing in it can be compressed.
    package var certainBytes: Int
    /// Bytes of the objects that are collected before they are nested in one another.
    package var gatheredBytes: Int
    /// Steps of SQLite's virtual machine; nil for any number.
    package var steps: Int?
    /// Processor time; nil for any time. Patterns take time without steps.
    package var microseconds: Int64?

    package init(
        answerBytes: Int, certainBytes: Int, gatheredBytes: Int, steps: Int? = nil, microseconds: Int64? = nil
    ) {
        self.answerBytes = answerBytes
        self.certainBytes = certainBytes
        self.gatheredBytes = gatheredBytes
        self.steps = steps
        self.microseconds = microseconds
    }

    /// A reply of ordinary JSON that a frame holds, within memory that a server can spare. Use it for one fetch at a
    /// time.
    package static let long = FetchLimits(answerBytes: 32 << 20, certainBytes: 15 << 20, gatheredBytes: 16 << 20)
    /// Some milliseconds of work: requests of many clients at once are answered within a second.
    package static let brief = FetchLimits(
        answerBytes: 256 << 10, certainBytes: 256 << 10, gatheredBytes: 512 << 10, steps: 1_000_000,
        microseconds: 10_000)
}

/// Why a fetch has no result.
package enum FetchFailure: Error, Sendable {
    case fault(Fault)
    case store(StoreError)
    /// The fetch exceeds its limits and must be repeated with larger ones.
    case tooLong
    /// The client no longer waits for it.
    case stopped
}
