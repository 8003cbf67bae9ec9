#if Replication
/// The properties that a stream and its servers must have.
package struct StreamRequirements: Sendable {
    /// The versions of nats-server that Broker's rounds of faults have passed.
    package static let provenVersions: Set<String> = ["2.15.1"]

    package static let standard = StreamRequirements()

    var versions: Set<String>
    var copies: Int
    /// Bytes of a message without its headers.
    var largestMessage: Int
    /// Whether the configuration of a stream is compared.
    var comparesConfiguration: Bool
    /// Microseconds that one leader must lack an entry, or the servers the stream, until that is taken for a loss: servers that have
    /// just started, and a leader that was just elected, may not have everything yet.
    var settlingTime: Int64

    /// Only tests need other values than the standard ones.
    init(
        versions: Set<String> = provenVersions, copies: Int = StreamConfiguration.copies,
        largestMessage: Int = ReplicatedEntry.largest, comparesConfiguration: Bool = true,
        settlingTime: Int64 = 10_000_000
    ) {
        self.versions = versions
        self.copies = copies
        self.largestMessage = largestMessage
        self.comparesConfiguration = comparesConfiguration
        self.settlingTime = settlingTime
    }
}
#endif
