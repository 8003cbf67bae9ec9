/// The version of Broker's programs and libraries.
package enum BrokerVersion {
    /// By semantic versioning. A version that ends in `-dev` is on its way to the one before the hyphen.
    package static let text = "0.1.0-dev"
}
