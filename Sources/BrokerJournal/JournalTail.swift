/// The end of a journal that was being written when the server or the machine stopped, and that the next start
/// truncated.
package struct JournalTail: Sendable, Equatable {
    package let file: String
    /// The present end of the file.
    package let offset: Int
    /// The number of truncated bytes.
    package let bytes: Int
}
