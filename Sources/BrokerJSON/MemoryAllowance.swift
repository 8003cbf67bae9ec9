/// The memory that somebody may still take. It is asked before the memory is used, from any thread.
package protocol MemoryAllowance: AnyObject, Sendable {
    /// Whether `bytes` more may be taken; if so, they are.
    func take(_ bytes: Int) -> Bool

    /// Of what was taken, `bytes` are not used any more.
    func giveBack(_ bytes: Int)
}

/// Why a text was not parsed.
package enum JSONRefusal: Error, Sendable {
    case fault(JSONError)
    /// The allowance was refused, or the system has no memory left. Nothing is kept, and the same may be tried again.
    case noRoom
}
