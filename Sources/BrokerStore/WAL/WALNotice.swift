/// An event of the WAL that an operator should know: reported once when it begins, and once when it ends.
package enum WALNotice: Sendable {
    /// The WAL grows, because a reader's transaction stays open and needs its pages.
    case held(bytes: Int)
    /// The WAL has been truncated to its working size.
    case released(bytes: Int)
    /// The WAL could not be copied into the database, and so grows; committed transactions are safe in it.
    case uncopied(StoreError)
    case copied
}
