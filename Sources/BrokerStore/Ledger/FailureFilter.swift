/// Which failed jobs a list has.
package struct FailureFilter: Sendable {
    /// Accepted at that time or later, in milliseconds since 1970.
    package let since: Int64?
    package let user: UInt32?
    package let code: String?

    package init(since: Int64? = nil, user: UInt32? = nil, code: String? = nil) {
        self.since = since
        self.user = user
        self.code = code
    }

    /// With what the stored faults of the code begin: `Fault.write(to:)` writes the code first.
    var beginning: String? { code.map { #"{"code":"\#($0)""# } }

    package func includes(acceptedAt: Int64, of owner: JobOwner, error: [UInt8]) -> Bool {
        acceptedAt >= since ?? .min && user ?? owner.user == owner.user && error.starts(with: (beginning ?? "").utf8)
    }
}
