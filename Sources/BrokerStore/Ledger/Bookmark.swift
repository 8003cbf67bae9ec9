/// A named text that a job writes with its changes: how far its data have come, in the words of their source.
package struct Bookmark: Sendable, Equatable {
    package let name: String
    /// Nil deletes the bookmark.
    package let value: String?

    package init(name: String, value: String?) {
        self.name = name
        self.value = value
    }
}

/// A bookmark in the store.
package struct StoredBookmark: Sendable, Equatable {
    package let value: String
    /// The job that wrote it.
    package let sequence: Int64
}
