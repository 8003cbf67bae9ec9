/// The text around the objects that a fetch finds, so that a reply need not be copied to be complete.
package struct FetchEnvelope: Sendable {
    package let beginning: [UInt8]
    package let ending: @Sendable (_ hasMore: Bool, _ last: [UInt8]?) -> [UInt8]

    /// - Parameter ending: called with ``FetchedObjects/hasMore`` and the key of the last object, as JSON; nil when a
    ///   client needs none.
    package init(
        beginning: [UInt8], ending: @escaping @Sendable (_ hasMore: Bool, _ last: [UInt8]?) -> [UInt8]
    ) {
        self.beginning = beginning
        self.ending = ending
    }

    /// No text.
    package static let none = FetchEnvelope(beginning: []) { _, _ in [] }
}

/// The result of a fetch, or the next part of a streamed one, as JSON text.
package struct FetchedObjects: Sendable {
    /// The position after an object.
    struct End {
        let offset: Int
        /// The object's key as JSON; nil when the reply does not have it.
        let key: [UInt8]?
    }

    /// The objects in the requested form, in their envelope.
    package private(set) var bytes: [UInt8]
    /// The store has further objects for the request; for a stream, further parts follow.
    package private(set) var hasMore: Bool
    /// The key of the last object as JSON; nil when the request is sorted, or has no further objects.
    package let last: [UInt8]?
    /// The end of the last object that fits any frame; nil where all of them fit.
    private let certainEnd: End?
    private let closing: [UInt8]
    private let envelope: FetchEnvelope

    /// - Parameters:
    ///   - bytes: from the beginning of the envelope to the last object.
    ///   - closing: the end of the array or object around them.
    ///   - last: the key of the last object.
    ///   - certainEnd: nil when all of them fit.
    init(
        _ bytes: consuming [UInt8], closing: [UInt8], _ envelope: FetchEnvelope, hasMore: Bool, last: [UInt8]?,
        certainEnd: End?
    ) {
        bytes += closing
        bytes += envelope.ending(hasMore, last)
        self.bytes = bytes
        self.last = last
        self.closing = closing
        self.envelope = envelope
        self.hasMore = hasMore
        self.certainEnd = certainEnd
    }

    /// The first of these objects, so few that any frame holds them; nil when any frame holds all of them.
    package var shortened: FetchedObjects? {
        guard let certainEnd else { return nil }
        return FetchedObjects(
            Array(bytes[..<certainEnd.offset]), closing: closing, envelope, hasMore: true, last: certainEnd.key,
            certainEnd: nil)
    }
}
