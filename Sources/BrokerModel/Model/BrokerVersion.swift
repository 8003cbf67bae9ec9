internal import CVersion

/// The version of Broker's programs and libraries.
package enum BrokerVersion {
    /// By semantic versioning. A version with `-dev` is on its way to the one before the hyphen.
    package static let text = text(ofCommit: String(cString: broker_commit()))

    /// With the commit that it was built from, unless that is empty.
    package static func text(ofCommit commit: String) -> String { "0.1.0-dev" + (commit.isEmpty ? "" : "+g" + commit) }
}
