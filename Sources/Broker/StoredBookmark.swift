/// A bookmark of a store: a text that a job wrote with its changes.
public struct StoredBookmark: Sendable, Hashable {
    public var name: String
    public var value: String
    /// The job that wrote it.
    public var sequence: Int64

    public init(name: String, value: String, sequence: Int64) {
        self.name = name
        self.value = value
        self.sequence = sequence
    }
}
