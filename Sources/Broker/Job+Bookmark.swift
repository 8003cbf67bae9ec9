extension Job {
    /// A named text that a job writes with its changes: how far its data have come, in the words of their source. An `ETag`, a
    /// cursor, the offset of a message.
    ///
    /// It is written when the job takes effect, also when no object changes. It is part of the job's content.
    public struct Bookmark: Sendable, Hashable {
        /// Shared by all clients of the store; 1 to 1,024 bytes.
        public var name: String
        /// At most 8,192 bytes. Nil deletes the bookmark.
        public var value: String?

        public init(_ name: String, _ value: String?) {
            self.name = name
            self.value = value
        }
    }
}
