/// Identifies the frame that an answer is about, as far as it could be read.
package struct FrameReference: Sendable, Equatable {
    /// The position of the frame on its connection; 1 is the first. Nil in a process without frames.
    package var ordinal: Int?
    /// The `id` of the message in the frame, when it is a string of 1 to 128 bytes.
    package var id: String?
    /// The `tag` of the message as JSON text, when it has at most 1,024 bytes.
    package var tag: [UInt8]?

    package init(ordinal: Int? = nil, id: String? = nil, tag: [UInt8]? = nil) {
        self.ordinal = ordinal
        self.id = id
        self.tag = tag
    }
}
