// swift-tools-version: 6.2
import PackageDescription

/// The traits of Broker besides the client: "Embedding" for the coordinator, too.
let traits = [Context.environment["BROKER_TRAITS"] ?? ""].filter { !$0.isEmpty }

// A package as a user of the libraries would write it, which depends on Broker by version and wants nothing but
// the client, or the embedded broker as well. scripts/check resolves it both ways, looks at what it depends on, builds and
// runs it.
let package = Package(
    name: "Consumer",
    dependencies: [
        .package(
            url: Context.environment["BROKER_URL"] ?? "../..", from: "1.0.0",
            traits: Set(traits.map { .trait(name: $0) }))
    ],
    targets: [
        .executableTarget(
            name: "Consumer",
            dependencies: [
                .product(name: "Broker", package: "broker"), .product(name: "BrokerClient", package: "broker"),
            ])
    ]
        + (traits.contains("Embedding")
            ? [
                .executableTarget(
                    name: "Embedded",
                    dependencies: [
                        .product(name: "Broker", package: "broker"),
                        .product(name: "BrokerEmbedded", package: "broker"),
                    ])
            ]
            : [])
)
