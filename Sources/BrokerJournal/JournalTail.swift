/// The end of a journal that was being written when the server or the machine stopped, and that was cut off at the next start.
package struct JournalTail: Sendable, Equatable {
    package let file: String
    /// Where the file ends now.
    package let offset: Int
    /// How many bytes were cut off.
    package let bytes: Int
}
