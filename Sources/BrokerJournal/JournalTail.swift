/// The end of a journal that was being written when the server or the machine stopped, and that was cut off at the next start.
public struct JournalTail: Sendable, Equatable {
    public let file: String
    /// Where the file ends now.
    public let offset: Int
    /// How many bytes were cut off.
    public let bytes: Int
}
