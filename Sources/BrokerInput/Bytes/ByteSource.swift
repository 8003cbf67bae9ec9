/// The bytes of an input, piece after piece. Belongs to one thread, which may block.
package protocol ByteSource: AnyObject {
    /// Returns the next bytes as soon as there are some; none at the end.
    func next() throws(ByteFault) -> [UInt8]

    /// The number of bytes of the file that were read so far, before unpacking.
    var bytesRead: Int { get }
}

/// Why there are no more bytes.
package enum ByteFault: Error {
    /// A system call failed.
    case unreadable(String)
    /// The bytes cannot be unpacked.
    case damaged(String)

    /// - Parameter place: the reader's position.
    func inputFault(at place: InputPlace) -> InputFault {
        switch self {
        case .unreadable(let reason): InputFault(reason: reason, place: nil)
        case .damaged(let reason): InputFault(reason: reason, place: place)
        }
    }
}
