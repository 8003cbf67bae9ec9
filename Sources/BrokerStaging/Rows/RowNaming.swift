/// How a job names the object of a row.
public struct RowNaming: Sendable {
    /// Text offset of the record or bare key that first named it.
    let offset: UInt32
    public internal(set) var origin: RowOrigin
}
