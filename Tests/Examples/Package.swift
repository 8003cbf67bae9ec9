// swift-tools-version: 6.2
import PackageDescription

let strict: [SwiftSetting] = [.treatAllWarnings(as: .error)]

// Programs that use the client library. A package outside of this repository names Broker by its URL and a version.
let package = Package(
    name: "Examples",
    dependencies: [
        .package(name: "broker", path: "../..", traits: ["Client", "ServiceLifecycle"]),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.0", traits: []),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    ],
    targets: [
        .executableTarget(
            name: "HTTPService",
            dependencies: [
                .product(name: "Broker", package: "broker"),
                .product(name: "BrokerClient", package: "broker"),
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ], exclude: ["README.md"],
            swiftSettings: strict),
        .executableTarget(
            name: "Service",
            dependencies: [
                .product(name: "BrokerClient", package: "broker"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ],
            swiftSettings: strict),
        .executableTarget(
            name: "BatchImporter",
            dependencies: [
                .product(name: "Broker", package: "broker"),
                .product(name: "BrokerClient", package: "broker"),
            ], exclude: ["README.md"],
            swiftSettings: strict),
        .executableTarget(
            name: "Follower",
            dependencies: [
                .product(name: "Broker", package: "broker"),
                .product(name: "BrokerClient", package: "broker"),
            ], exclude: ["README.md"],
            swiftSettings: strict),
        .executableTarget(
            name: "GRDBReader",
            dependencies: [.product(name: "GRDB", package: "GRDB.swift")], exclude: ["README.md"], swiftSettings: strict
        ),
        .target(
            name: "Together",
            dependencies: [
                .product(name: "Broker", package: "broker"),
                .product(name: "BrokerClient", package: "broker"),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "Hummingbird", package: "hummingbird"),
            ],
            swiftSettings: strict),
    ]
)
