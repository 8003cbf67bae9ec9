// swift-tools-version: 6.2
import PackageDescription

/// Every target of ours: Swift 6 language mode, and a warning is an error.
let strict: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .treatAllWarnings(as: .error),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
]

let nio = "swift-nio"

/// The programs allocate with jemalloc; built with `BROKER_ALLOCATOR=system` in the environment, with the C library's malloc.
let hasJemalloc = Context.environment["BROKER_ALLOCATOR"] != "system"
let allocator: [Target.Dependency] = hasJemalloc ? ["CJemalloc"] : []
let allocatorSettings: [SwiftSetting] = hasJemalloc ? [.define("JEMALLOC")] : []

/// With `BROKER_COMMIT=40779def` in the environment the version is `…+g40779def` (`scripts/install`). Only CVersion depends on it.
let commit = Context.environment["BROKER_COMMIT"] ?? ""
let commitSettings: [CSetting] = commit.isEmpty ? [] : [.define("BROKER_COMMIT", to: "\"\(commit)\"")]

/// Whether this package was fetched for another one. While SwiftPM chooses versions it reads the manifest from a repository, where
/// it is in the folder `/`; then it checks the version out to a folder in `checkouts`. A package at a path, with which one works
/// on both packages, is none of these.
let isFetched =
    Context.packageDirectory == "/" || Context.packageDirectory.split(separator: "/").dropLast().last == "checkouts"

/// A dependency that the programs need and a client does not. SwiftPM does not even fetch these packages for a package that
/// has not enabled the trait.
func forPrograms(_ product: String, _ package: String) -> Target.Dependency {
    .product(name: product, package: package, condition: .when(traits: ["Programs", "Replication"]))
}

/// A dependency that the coordinator needs, in a program of ours or embedded in another.
func forCoordinator(_ product: String, _ package: String) -> Target.Dependency {
    .product(name: product, package: package, condition: .when(traits: ["Embedding", "Programs", "Replication"]))
}

/// A dependency that only the replicated log needs: without the trait nothing links the client of NATS.
func forReplication(_ target: String) -> Target.Dependency {
    .target(name: target, condition: .when(traits: ["Replication"]))
}

/// The targets of `swift build` when the variable names some: see the end of this file.
func names(_ variable: String) -> [String] {
    Context.environment[variable]?.split(separator: " ").map(String.init) ?? []
}

/// RemoteBroker and EmbeddedBroker are services with these traits. The programs do not use that; its tests do, which are built with Programs. What it
/// needs is a twentieth of a build of the programs, so a build of them alone is without it.
let lifecycleTraits: Set =
    names("BROKER_PROGRAMS").isEmpty ? ["ServiceLifecycle", "Programs", "Replication"] : ["ServiceLifecycle"]

/// A test target is named for the target it tests.
func tests(_ target: String, also: [Target.Dependency] = []) -> Target {
    .testTarget(
        name: "\(target)Tests", dependencies: [.byName(name: target), "TestSupport"] + also, swiftSettings: strict)
}

let package = Package(
    name: "Broker",
    // Broker needs Linux, which cannot be named here: its files, locks and peers are those of that kernel. A package that has parts
    // for macOS as well learns from this which version the libraries of Swift that Broker uses need there.
    platforms: [.macOS(.v15)],
    products: [
        .library(name: "Broker", targets: ["Broker"]),
        .library(name: "BrokerClient", targets: ["BrokerClient"]),
        .library(name: "BrokerEmbedded", targets: ["BrokerEmbedded"]),
        .executable(name: "brokerd", targets: ["brokerd"]),
        .executable(name: "broker", targets: ["BrokerCommand"]),
        .executable(name: "brokerload", targets: ["brokerload"]),
    ],
    traits: [
        .trait(
            name: "ServiceLifecycle",
            description: "The brokers are services of swift-service-lifecycle, with a graceful shutdown."),
        .trait(name: "Embedding", description: "The coordinator, for BrokerEmbedded, with the packages that it needs."),
        // It includes the others without enabling them: SwiftPM passes the enabled traits to the compiler in an order that differs
        // from plan to plan (swift-package-manager#10525), and with two or more everything is compiled again.
        .trait(name: "Programs", description: "The server and the commands, with the packages that only they need."),
        // It includes Programs, for the same reason.
        .trait(
            name: "Replication", description: "The programs, with a log that several servers share over NATS JetStream."
        ),
        // Here everything is built; another package gets the client, and opts in to the rest.
        .default(enabledTraits: isFetched ? [] : ["Programs"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.0"),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.0"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-distributed-tracing", from: "1.7.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-collections", from: "1.6.0"),
        .package(url: "https://github.com/HdrHistogram/hdrhistogram-swift", from: "0.2.0"),
        .package(url: "https://github.com/swhitty/FlyingFox", from: "0.27.1"),
    ],
    targets: [
        // C and C++ libraries.
        .systemLibrary(name: "CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
        .systemLibrary(name: "CGlibc"),
        .systemLibrary(name: "CLZ4", pkgConfig: "liblz4", providers: [.apt(["liblz4-dev"])]),
        .systemLibrary(name: "CZlib", pkgConfig: "zlib", providers: [.apt(["zlib1g-dev"])]),
        .systemLibrary(name: "CZstd"),
        .systemLibrary(name: "CCurl", pkgConfig: "libcurl", providers: [.apt(["libcurl4-openssl-dev"])]),
        .systemLibrary(name: "CXML2", pkgConfig: "libxml-2.0", providers: [.apt(["libxml2-dev"])]),
        .systemLibrary(name: "CNATS", pkgConfig: "libnats", providers: [.apt(["libnats-dev"])]),
        .systemLibrary(name: "CJemalloc", pkgConfig: "jemalloc", providers: [.apt(["libjemalloc-dev"])]),
        .target(name: "CTape"),
        .target(name: "CVersion", cSettings: commitSettings),
        .target(
            name: "CSimdjson", dependencies: ["CTape"],
            cxxSettings: [.enableWarning("all"), .enableWarning("extra"), .treatAllWarnings(as: .error)],
            linkerSettings: [.linkedLibrary("simdjson")]),
        .target(
            name: "CRE2",
            cxxSettings: [.enableWarning("all"), .enableWarning("extra"), .treatAllWarnings(as: .error)],
            linkerSettings: [.linkedLibrary("re2")]),

        // The pipeline, in the order in which the data flows through it.
        .target(name: "BrokerJSON", dependencies: ["CTape"], swiftSettings: strict),
        .target(
            name: "BrokerFastJSON", dependencies: ["BrokerJSON", "CSimdjson", "CTape"], swiftSettings: strict),
        .target(name: "BrokerModel", dependencies: ["BrokerJSON", "CVersion"], swiftSettings: strict),
        .target(name: "BrokerXML", dependencies: ["CXML2"], swiftSettings: strict),
        .target(name: "BrokerWire", dependencies: ["Broker", "BrokerJSON", "CLZ4"], swiftSettings: strict),
        .target(
            name: "BrokerStaging",
            dependencies: ["BrokerFastJSON", "BrokerJSON", "BrokerModel", "CRE2"],
            swiftSettings: strict),
        .target(name: "BrokerSQLite", dependencies: ["CGlibc", "CSQLite"], swiftSettings: strict),
        .target(
            name: "BrokerModelSources",
            dependencies: [
                "BrokerFastJSON", "BrokerJSON", "BrokerModel", "BrokerSQLite", "BrokerStaging", "BrokerXML",
            ],
            swiftSettings: strict),
        .target(
            name: "BrokerSchema", dependencies: ["BrokerJSON", "BrokerModel", "BrokerSQLite"], swiftSettings: strict),
        .target(
            name: "BrokerStore",
            dependencies: [
                "BrokerJSON", "BrokerModel", "BrokerSchema", "BrokerSQLite", "BrokerStaging", "CSQLite",
                .product(name: "HeapModule", package: "swift-collections"),
            ],
            swiftSettings: strict),
        .target(name: "BrokerJournal", dependencies: ["CZlib"], swiftSettings: strict),
        // The log that several servers share. Its files are empty without the trait Replication.
        .target(
            name: "BrokerReplication", dependencies: ["BrokerJSON", "BrokerJournal", forReplication("CNATS")],
            swiftSettings: strict),
        .target(
            name: "BrokerCoordinator",
            dependencies: [
                "BrokerFastJSON", "BrokerJournal", "BrokerJSON", "BrokerModel", "BrokerSchema", "BrokerStaging",
                "BrokerStore", forReplication("BrokerReplication"),
                .product(name: "DequeModule", package: "swift-collections"),
                forCoordinator("Histogram", "hdrhistogram-swift"),
                forCoordinator("Logging", "swift-log"),
            ],
            swiftSettings: strict),
        // The messages of clients in the coordinator's words, with a socket and embedded.
        .target(
            name: "BrokerMessages",
            dependencies: [
                "Broker", "BrokerCoordinator", "BrokerFastJSON", "BrokerJSON", "BrokerModel", "BrokerStaging",
                "BrokerStore", "BrokerWire",
            ],
            swiftSettings: strict),
        .target(
            name: "BrokerServer",
            dependencies: [
                "Broker", "BrokerFastJSON", "BrokerJSON", "BrokerMessages", "BrokerModel", "BrokerSchema",
                "BrokerStaging", "BrokerStore", "BrokerWire", "BrokerCoordinator",
                .product(name: "DequeModule", package: "swift-collections"),
                forPrograms("Logging", "swift-log"),
                .product(name: "NIOCore", package: nio),
                .product(name: "NIOPosix", package: nio),
            ],
            swiftSettings: strict),
        // The public values of both libraries, the same as messages of the protocol, and the library that talks to a server.
        .target(
            name: "Broker",
            dependencies: [
                "BrokerJSON",
                .product(name: "Metrics", package: "swift-metrics"),
                .product(name: "Tracing", package: "swift-distributed-tracing"),
            ],
            swiftSettings: strict),
        .target(
            name: "BrokerClient",
            dependencies: [
                "Broker", "BrokerJSON", "BrokerWire",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "Metrics", package: "swift-metrics"),
                .product(name: "Tracing", package: "swift-distributed-tracing"),
                .product(
                    name: "ServiceLifecycle", package: "swift-service-lifecycle",
                    condition: .when(traits: lifecycleTraits)),
                .product(name: "DequeModule", package: "swift-collections"),
                .product(name: "NIOCore", package: nio),
                .product(name: "NIOPosix", package: nio),
            ],
            swiftSettings: strict + [.define("LIFECYCLE", .when(traits: lifecycleTraits))]),

        .target(
            name: "BrokerEmbedded",
            dependencies: [
                "Broker", "BrokerCoordinator", "BrokerFastJSON", "BrokerJSON", "BrokerMessages", "BrokerModel",
                "BrokerSchema", "BrokerStaging", "BrokerStore", "BrokerWire",
                forCoordinator("Logging", "swift-log"),
                .product(
                    name: "ServiceLifecycle", package: "swift-service-lifecycle",
                    condition: .when(traits: lifecycleTraits)),
            ],
            swiftSettings: strict + [.define("LIFECYCLE", .when(traits: lifecycleTraits))]),

        // The programs, their common parts, and the readers of the command's input.
        .target(
            name: "BrokerInput",
            dependencies: ["BrokerFastJSON", "BrokerJSON", "BrokerXML", "CGlibc", "CLZ4", "CZlib", "CZstd"],
            swiftSettings: strict),
        // Pages over HTTP, which only the command gets.
        .target(
            name: "BrokerPages",
            dependencies: ["BrokerFastJSON", "BrokerInput", "BrokerJSON", "BrokerModel", "CCurl"], swiftSettings: strict
        ),
        .target(
            name: "BrokerCommandLine",
            dependencies: [
                "BrokerJSON", "BrokerModel", "BrokerModelSources", "BrokerStaging", "CGlibc",
                forReplication("BrokerReplication"),
                forPrograms("ArgumentParser", "swift-argument-parser"),
                forPrograms("Logging", "swift-log"),
            ] + allocator,
            swiftSettings: strict + allocatorSettings),
        // The measurements of a server and its objects as web pages, and the measurements for Prometheus, over HTTP.
        .target(
            name: "BrokerConsole",
            dependencies: [
                "Broker", "BrokerClient", "BrokerCommandLine", "BrokerFastJSON", "BrokerJSON", "BrokerWire",
                forPrograms("FlyingFox", "FlyingFox"), forPrograms("FlyingSocks", "FlyingFox"),
            ],
            swiftSettings: strict),
        .executableTarget(
            name: "brokerd",
            dependencies: [
                "BrokerCommandLine", "BrokerJSON", "BrokerModel", "BrokerModelSources", "BrokerSchema", "BrokerWire",
                "BrokerStaging", "BrokerStore", "BrokerCoordinator", "BrokerServer",
                forPrograms("ArgumentParser", "swift-argument-parser"),
                forPrograms("Logging", "swift-log"),
                forPrograms("UnixSignals", "swift-service-lifecycle"),
            ],
            swiftSettings: strict),
        .executableTarget(
            name: "BrokerCommand",
            dependencies: [
                "BrokerCommandLine", "BrokerConsole", "BrokerFastJSON", "BrokerInput", "BrokerModelSources",
                "BrokerJSON",
                "BrokerModel", "BrokerPages", "BrokerSQLite", "BrokerSchema", forReplication("BrokerReplication"),
                "BrokerWire", "BrokerStaging", "BrokerStore", "BrokerCoordinator", "BrokerServer", "Broker",
                "BrokerClient",
                forPrograms("ArgumentParser", "swift-argument-parser"),
                forPrograms("Logging", "swift-log"),
            ],
            swiftSettings: strict),
        // Load generation, measurements, and the same work without Broker.
        .executableTarget(
            name: "brokerload",
            dependencies: [
                "BrokerCommandLine", "BrokerFastJSON", "BrokerJSON", "BrokerModel", "BrokerSQLite", "BrokerWire",
                "CGlibc", "CSQLite",
                forPrograms("ArgumentParser", "swift-argument-parser"), forPrograms("Histogram", "hdrhistogram-swift"),
            ],
            swiftSettings: strict),

        // The tests: pure machines and targets first, real processes over a real socket last.
        .target(
            name: "FaultVFS", dependencies: ["CSQLite"], path: "Tests/FaultVFS",
            cSettings: [.enableWarning("all"), .enableWarning("extra"), .treatAllWarnings(as: .error)]),
        .target(
            name: "TestSupport",
            dependencies: ["BrokerFastJSON", "BrokerJournal", "BrokerJSON", "BrokerWire", "CSQLite", "FaultVFS"],
            path: "Tests/TestSupport", swiftSettings: strict),
        tests("BrokerJSON", also: ["BrokerFastJSON"]),
        tests("BrokerInput", also: ["BrokerJSON", "CLZ4", "CZlib"]),
        tests("BrokerPages", also: ["BrokerInput"]),
        tests("BrokerConsole", also: ["Broker", "BrokerClient", "BrokerJSON"]),
        tests("BrokerModel", also: ["BrokerJSON"]),
        tests("BrokerWire", also: ["Broker", "BrokerJSON"]),
        tests("Broker", also: ["BrokerJSON", "BrokerWire"]),
        tests("BrokerStaging", also: ["BrokerJSON", "BrokerModel"]),
        tests("BrokerModelSources", also: ["BrokerJSON", "BrokerModel", "BrokerStaging", "BrokerStore", "CSQLite"]),
        tests("BrokerJournal"),
        tests("BrokerReplication", also: ["BrokerJSON", "BrokerJournal", forReplication("CNATS")]),
        tests("BrokerStore", also: ["BrokerJSON", "BrokerModel", "BrokerSchema", "BrokerStaging", "CSQLite"]),
        tests(
            "BrokerCoordinator",
            also: [
                "BrokerFastJSON", "BrokerJSON", "BrokerModel", "BrokerSchema", "BrokerStaging", "BrokerStore",
                "CSQLite",
                forPrograms("Logging", "swift-log"),
            ]),
        tests(
            "BrokerServer",
            also: [
                "BrokerJSON", "BrokerMessages", "BrokerModel", "BrokerSchema", "BrokerWire", "BrokerStaging",
                "BrokerStore",
                "BrokerCoordinator",
                forPrograms("Logging", "swift-log"),
                .product(name: "NIOCore", package: nio),
            ]),
        tests(
            "BrokerClient",
            also: [
                "Broker", "BrokerJSON", "BrokerWire",
                .product(name: "InMemoryTracing", package: "swift-distributed-tracing"),
                .product(name: "Logging", package: "swift-log"),
                forPrograms("ServiceLifecycle", "swift-service-lifecycle"),
                forPrograms("ServiceLifecycleTestKit", "swift-service-lifecycle"),
                .product(name: "NIOCore", package: nio),
                .product(name: "NIOEmbedded", package: nio),
                .product(name: "NIOPosix", package: nio),
            ]),
        tests(
            "BrokerEmbedded",
            also: [
                "Broker", "BrokerJSON", "BrokerModel", "BrokerStore",
                .product(name: "InMemoryTracing", package: "swift-distributed-tracing"),
                forCoordinator("Logging", "swift-log"),
            ]),
        .executableTarget(
            name: "Embedding", dependencies: ["Broker", "BrokerEmbedded"], path: "Tests/Embedding",
            swiftSettings: strict),
        .executableTarget(
            name: "Handling", dependencies: ["Broker", "BrokerEmbedded"], path: "Tests/Handling", swiftSettings: strict),
        // Measures the client library (scripts/bench client).
        .executableTarget(
            name: "ClientLoad", dependencies: ["Broker", "BrokerClient"], path: "Tests/ClientLoad",
            swiftSettings: strict),
        .executableTarget(
            name: "CrashTest",
            dependencies: [
                "BrokerJournal", "TestSupport", forPrograms("ArgumentParser", "swift-argument-parser"),
                forReplication("BrokerReplication"),
            ],
            path: "Tests/CrashTest", exclude: ["AnotherMachine.c"], swiftSettings: strict),
        // The fuzz targets, the program that libFuzzer runs them in (scripts/fuzz), and a test that runs their inputs.
        .systemLibrary(name: "CLibFuzzer", path: "Tests/Fuzz/CLibFuzzer"),
        .target(
            name: "FuzzTargets",
            dependencies: [
                "BrokerCoordinator", "BrokerFastJSON", "BrokerInput", "BrokerJournal", "BrokerJSON", "BrokerModel",
                "BrokerMessages", "BrokerModelSources", "BrokerSchema", "BrokerStaging", "BrokerStore", "BrokerWire",
                "TestSupport",
            ],
            path: "Tests/Fuzz/Targets", swiftSettings: strict),
        .executableTarget(
            name: "Fuzz", dependencies: ["CLibFuzzer", "FuzzTargets"], path: "Tests/Fuzz/Program",
            swiftSettings: strict),
        tests("FuzzTargets"),
        .testTarget(
            name: "LoadTestingTests",
            dependencies: ["brokerload", "BrokerCommandLine", "BrokerJSON", "BrokerWire", "CSQLite", "TestSupport"],
            swiftSettings: strict),
        .testTarget(
            name: "ProgramTests",
            dependencies: [
                "brokerd", "BrokerCommand", "brokerload", "Embedding", "Handling", "CrashTest", "BrokerEmbedded",
                "Broker", "BrokerClient", "BrokerCommandLine", "BrokerConsole", "BrokerJSON", "BrokerModel",
                "BrokerWire",
                "CSQLite", "TestSupport",
                forPrograms("Logging", "swift-log"), forPrograms("ServiceLifecycle", "swift-service-lifecycle"),
            ],
            swiftSettings: strict),
    ],
    cxxLanguageStandard: .cxx17
)

// Only some targets, with their dependencies: with BROKER_TESTS the tests of those, because under a sanitizer nothing else is built
// (`scripts/test`); with BROKER_PROGRAMS those, so that several programs are one build (`scripts/quickstart`).
var next = names("BROKER_TESTS").map { "\($0)Tests" } + names("BROKER_PROGRAMS")
if !next.isEmpty {
    var needed = Set<String>()
    while let name = next.popLast() {
        guard needed.insert(name).inserted else { continue }
        let target = package.targets.first { $0.name == name }
        next += (target?.dependencies ?? []).compactMap {
            switch $0 {
            case .targetItem(let name, _), .byNameItem(let name, _): name
            case .productItem: nil
            @unknown default: nil
            }
        }
    }
    package.targets.removeAll { !needed.contains($0.name) }
    package.products.removeAll { !Set(($0 as? Product.Executable)?.targets ?? [""]).isSubset(of: needed) }
}
