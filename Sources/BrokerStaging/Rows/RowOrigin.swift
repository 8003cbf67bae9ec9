/// The reason for a staged row; of several reasons the smallest counts.
public enum RowOrigin: UInt8, Sendable {
    /// A record named it.
    case record = 0
    /// A bare key named it; it is inserted if it does not exist.
    case stub = 1
    /// A bare key named it, and it must exist.
    case mustExist = 2
    /// A bare key named it; links to it are skipped if it does not exist.
    case mayBeMissing = 3
    /// A record named it that may not change it; the object exists, and the row is not merged.
    case ignored = 4

    /// The origin is a bare key that neither makes an object nor determines its entity.
    var makesNothing: Bool { self == .mustExist || self == .mayBeMissing }
}
