// swift-tools-version: 6.2
import PackageDescription

/// "Client" or "Embedding", or both.
let traits = (Context.environment["BROKER_TRAITS"] ?? "Client").split(separator: " ").map(String.init)
let url = Context.environment["BROKER_URL"] ?? "../.."

// One import brings all that a program calls.
let alone: [SwiftSetting] = [.enableUpcomingFeature("MemberImportVisibility")]

// A package as a user of the libraries would write it, which depends on Broker by version and wants nothing but
// the client, or the embedded broker as well. scripts/check resolves it both ways, looks at what it depends on, builds and
// runs it.
let package = Package(
    name: "Consumer",
    dependencies: [
        .package(url: url, from: "1.0.0", traits: Set(traits.map { .trait(name: $0) }))
    ],
    targets: [
        .executableTarget(
            name: "Consumer",
            dependencies: [.product(name: "BrokerClient", package: "broker")], swiftSettings: alone),
        .executableTarget(
            name: "Embedded",
            dependencies: [.product(name: "BrokerEmbedded", package: "broker")], swiftSettings: alone),
    ]
)
