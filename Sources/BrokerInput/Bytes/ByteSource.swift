/// Bytes of an input, piece after piece. Belongs to one thread, which may have to wait for them.
package protocol ByteSource: AnyObject {
    /// The next bytes, as soon as there are some; none at the end.
    func next() throws(ByteFault) -> [UInt8]

    /// Bytes of the file that were read so far, as they are there.
    var bytesRead: Int { get }
}

/// Why there are no more bytes.
package enum ByteFault: Error {
    /// The system does not give them.
    case unreadable(String)
    /// They cannot be unpacked.
    case damaged(String)

    /// - Parameter place: where the reader stands.
    func inputFault(at place: InputPlace) -> InputFault {
        switch self {
        case .unreadable(let reason): InputFault(reason: reason, place: nil)
        case .damaged(let reason): InputFault(reason: reason, place: place)
        }
    }
}
