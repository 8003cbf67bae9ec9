/// The treatment of a record that cannot be staged.
package enum InvalidRecordPolicy: String, Sendable {
    /// The job fails.
    case fail
    /// The smallest object that contains the fault is rejected and listed.
    case skip
}
