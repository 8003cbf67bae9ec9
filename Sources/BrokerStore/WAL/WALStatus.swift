/// The state of SQLite's write-ahead log (WAL), beside the database.
package struct WALStatus: Sendable, Equatable {
    /// The size of its file.
    package var bytes = 0
    /// Pages in it that are not in the database yet.
    package var uncheckpointedPages = 0
    /// When all of it was last copied into the database, in milliseconds since 1970; nil for not since the store was opened.
    package var checkpointedAt: Int64?

    package init() {}
}
