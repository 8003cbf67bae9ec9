internal import BrokerModel

/// A fault in a record nested in one that the merge may skip. Then the fault does not count.
struct ConditionalFault {
    let fault: Fault
    let offset: Int

    /// Returns the fault that begins first in the text.
    static func first(_ one: ConditionalFault?, _ other: ConditionalFault?) -> ConditionalFault? {
        guard let one, let other else { return one ?? other }
        return other.offset < one.offset ? other : one
    }
}
