/// An amount of memory that its users may still take. Each asks before it allocates, from any thread.
public protocol MemoryAllowance: AnyObject, Sendable {
    /// Takes `bytes` if they are available; returns whether they were.
    func take(_ bytes: Int) -> Bool

    /// Gives back `bytes` that were taken.
    func giveBack(_ bytes: Int)
}

/// Why a text was not parsed.
public enum JSONRefusal: Error, Sendable {
    case fault(JSONError)
    /// The allowance was refused, or the system has no memory left. No memory stays taken, and the caller may try
    /// again.
    case noRoom
}
