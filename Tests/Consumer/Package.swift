// swift-tools-version: 6.2
import PackageDescription

/// What is wanted of Broker beside the client: "Embedding" for the coordinator too.
let traits = Context.environment["BROKER_TRAITS"].map { [$0] } ?? []

// A package as a user of the libraries would write it, which depends on Broker by version and wants nothing but
// the client, or the embedded coordinator as well. scripts/check builds it both ways, looks at what it depends on, and
// runs it.
let package = Package(
    name: "Consumer",
    dependencies: [
        .package(
            url: Context.environment["BROKER_URL"] ?? "../..", from: "1.0.0",
            traits: Set(traits.map { .trait(name: $0) }))
    ],
    targets: [
        .executableTarget(name: "Consumer", dependencies: [.product(name: "BrokerClient", package: "broker")])
    ]
        + (traits.contains("Embedding")
            ? [.executableTarget(name: "Embedded", dependencies: [.product(name: "BrokerEmbedded", package: "broker")])]
            : [])
)
