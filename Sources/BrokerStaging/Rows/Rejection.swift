package import BrokerModel

/// A rejected record or nested object, with its offset in the text of the job.
package struct Rejection: Sendable {
    package let fault: Fault
    let offset: Int

    package init(_ fault: Fault, at offset: Int) {
        self.fault = fault
        self.offset = offset
    }
}
