// swift-tools-version: 6.2
import PackageDescription

// A package as a user of the client library would write it, which depends on Broker by version and wants nothing but
// the client. scripts/check builds it, looks at what it depends on, and runs it.
let package = Package(
    name: "Consumer",
    dependencies: [
        .package(url: Context.environment["BROKER_URL"] ?? "../..", from: "1.0.0", traits: [])
    ],
    targets: [
        .executableTarget(name: "Consumer", dependencies: [.product(name: "BrokerClient", package: "broker")])
    ]
)
