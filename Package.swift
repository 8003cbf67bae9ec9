// swift-tools-version: 6.2
import PackageDescription

/// Every target of ours: Swift 6 language mode, and a warning is an error.
let features = ["ExistentialAny", "InternalImportsByDefault"].map { SwiftSetting.enableUpcomingFeature($0) }
let strict = features + [.swiftLanguageMode(.v6), .treatAllWarnings(as: .error)]

/// The programs allocate with jemalloc; built with `BROKER_ALLOCATOR=system` in the environment, with the C library's malloc.
let hasJemalloc = Context.environment["BROKER_ALLOCATOR"] != "system"

/// With `BROKER_COMMIT=40779def` in the environment the version is `…+g40779def` (`scripts/install`). Only CVersion depends on it.
let commit = Context.environment["BROKER_COMMIT"].map { "\"\($0)\"" }

/// The other packages, and the products of which targets use with some traits, or always. SwiftPM does not even fetch a package of
/// which nothing is used with the enabled traits.
let programs: Set = ["Programs", "Replication"]
let packages: [(url: String, version: Version, products: String, traits: Set<String>?)] = [
    ("https://github.com/apple/swift-nio", "2.101.0", "NIOCore NIOEmbedded NIOPosix", programs.union(["Client"])),
    ("https://github.com/apple/swift-argument-parser", "1.8.0", "ArgumentParser", programs),
    ("https://github.com/apple/swift-log", "1.16.0", "InMemoryLogging Logging", nil),
    ("https://github.com/apple/swift-metrics", "2.13.0", "Metrics MetricsTestKit", nil),
    ("https://github.com/apple/swift-distributed-tracing", "1.7.0", "InMemoryTracing Tracing", nil),
    (
        "https://github.com/swift-server/swift-service-lifecycle", "2.13.0",
        "ServiceLifecycle ServiceLifecycleTestKit UnixSignals", programs.union(["ServiceLifecycle"])
    ),
    ("https://github.com/apple/swift-collections", "1.6.0", "DequeModule HeapModule", nil),
    ("https://github.com/HdrHistogram/hdrhistogram-swift", "0.2.0", "Histogram", programs.union(["Embedding"])),
    ("https://github.com/swhitty/FlyingFox", "0.27.1", "FlyingFox FlyingSocks", programs),
]

/// Targets, and products of other packages, by their names.
func dependencies(_ names: String) -> [Target.Dependency] {
    names.split(separator: " ").map(String.init).map { name in
        // Only the replicated log needs the client of NATS.
        if ["BrokerReplication", "CNATS"].contains(name) {
            return .target(name: name, condition: .when(traits: ["Replication"]))
        }
        let found = packages.first { $0.products.split(separator: " ").contains { $0 == name } }
        guard let found else { return .target(name: name) }
        let package = String(found.url.split(separator: "/").last!)
        guard let traits = found.traits else { return .product(name: name, package: package) }
        return .product(name: name, package: package, condition: .when(traits: traits))
    }
}

func library(_ name: String, _ names: String, path: String? = nil) -> Target {
    .target(name: name, dependencies: dependencies(names), path: path, swiftSettings: strict)
}

func program(_ name: String, _ names: String, path: String? = nil) -> Target {
    .executableTarget(name: name, dependencies: dependencies(names), path: path, swiftSettings: strict)
}

/// The tests of a target have its name first.
func tests(_ name: String, _ names: String) -> Target {
    .testTarget(name: "\(name)Tests", dependencies: dependencies("TestSupport \(names)"), swiftSettings: strict)
}

/// The same for C and C++.
let cWarnings: [CSetting] = [.enableWarning("all"), .enableWarning("extra"), .treatAllWarnings(as: .error)]
let cxxWarnings: [CXXSetting] = [.enableWarning("all"), .enableWarning("extra"), .treatAllWarnings(as: .error)]

let targets: [Target] = [
    // C and C++ libraries.
    .systemLibrary(name: "CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
    .systemLibrary(name: "CGlibc"),
    .systemLibrary(name: "CLZ4", pkgConfig: "liblz4", providers: [.apt(["liblz4-dev"]), .brew(["lz4"])]),
    .systemLibrary(name: "CZlib", pkgConfig: "zlib", providers: [.apt(["zlib1g-dev"])]),
    .systemLibrary(name: "CZstd"),
    .systemLibrary(name: "CCurl", pkgConfig: "libcurl", providers: [.apt(["libcurl4-openssl-dev"])]),
    .systemLibrary(name: "CXML2", pkgConfig: "libxml-2.0", providers: [.apt(["libxml2-dev"])]),
    .systemLibrary(name: "CNATS", pkgConfig: "libnats", providers: [.apt(["libnats-dev"])]),
    .systemLibrary(name: "CJemalloc", pkgConfig: "jemalloc", providers: [.apt(["libjemalloc-dev"])]),
    .target(name: "CTape"),
    .target(name: "CVersion", cSettings: commit.map { [.define("BROKER_COMMIT", to: $0)] }),
    .target(
        name: "CSimdjson", dependencies: dependencies("CTape"), cxxSettings: cxxWarnings,
        linkerSettings: [.linkedLibrary("simdjson")]),
    .target(name: "CRE2", cxxSettings: cxxWarnings, linkerSettings: [.linkedLibrary("re2")]),

    // The pipeline, in the order in which the data flows through it.
    library("BrokerJSON", "CTape"),
    library("BrokerFastJSON", "BrokerJSON CSimdjson CTape"),
    library("BrokerModel", "BrokerJSON CVersion"),
    library("BrokerXML", "CXML2"),
    library("BrokerWire", "Broker BrokerJSON CLZ4"),
    library("BrokerStaging", "BrokerFastJSON BrokerJSON BrokerModel CRE2"),
    library("BrokerSQLite", "CGlibc CSQLite"),
    library(
        "BrokerModelSources",
        "BrokerFastJSON BrokerJSON BrokerModel BrokerSchema BrokerSQLite BrokerStaging BrokerXML"),
    library("BrokerSchema", "BrokerJSON BrokerModel BrokerSQLite"),
    library("BrokerStore", "BrokerJSON BrokerModel BrokerSchema BrokerSQLite BrokerStaging CSQLite HeapModule"),
    library("BrokerJournal", "CZlib"),
    // The log that several servers share. Its files are empty without the trait Replication.
    library("BrokerReplication", "BrokerJSON BrokerJournal CNATS"),
    library(
        "BrokerCoordinator",
        "BrokerFastJSON BrokerJournal BrokerJSON BrokerModel BrokerSchema BrokerStaging BrokerStore "
            + "BrokerReplication DequeModule Histogram Logging"),
    // The messages of clients in the coordinator's words, with a socket and embedded.
    library(
        "BrokerMessages",
        "Broker BrokerCoordinator BrokerFastJSON BrokerJSON BrokerModel BrokerStaging BrokerStore BrokerWire"),
    library(
        "BrokerServer",
        "Broker BrokerFastJSON BrokerJSON BrokerMessages BrokerModel BrokerSchema BrokerStaging BrokerStore "
            + "BrokerWire BrokerCoordinator DequeModule Logging NIOCore NIOPosix"),

    // The public values of both libraries, the same as messages of the protocol; the library that talks to a server; and the one
    // that has the coordinator in it.
    library("Broker", "BrokerJSON Logging Metrics Tracing"),
    library(
        "BrokerClient",
        "Broker BrokerJSON BrokerWire DequeModule Logging Metrics NIOCore NIOPosix ServiceLifecycle Tracing"),
    library(
        "BrokerEmbedded",
        "Broker BrokerCoordinator BrokerFastJSON BrokerJSON BrokerMessages BrokerModel BrokerSchema BrokerStaging "
            + "BrokerStore BrokerWire Logging ServiceLifecycle"),

    // The programs, their common parts, and the readers of the command's input.
    library("BrokerInput", "BrokerFastJSON BrokerJSON BrokerXML CGlibc CLZ4 CZlib CZstd"),
    // Pages over HTTP, which only the command gets.
    library("BrokerPages", "BrokerFastJSON BrokerInput BrokerJSON BrokerModel CCurl"),
    .target(
        name: "BrokerCommandLine",
        dependencies: dependencies(
            "BrokerJSON BrokerModel BrokerModelSources BrokerReplication BrokerStaging CGlibc ArgumentParser Logging"
                + (hasJemalloc ? " CJemalloc" : "")),
        swiftSettings: strict + (hasJemalloc ? [.define("JEMALLOC")] : [])),
    // The measurements of a server and its objects as web pages, and the measurements for Prometheus, over HTTP.
    library(
        "BrokerConsole",
        "Broker BrokerClient BrokerCommandLine BrokerFastJSON BrokerJSON BrokerModel BrokerWire FlyingFox FlyingSocks"),
    program(
        "brokerd",
        "BrokerCommandLine BrokerJSON BrokerModel BrokerModelSources BrokerSchema BrokerWire BrokerStaging "
            + "BrokerStore BrokerCoordinator BrokerServer ArgumentParser Logging UnixSignals"),
    program(
        "BrokerCommand",
        "Broker BrokerClient BrokerCommandLine BrokerConsole BrokerCoordinator BrokerFastJSON BrokerInput BrokerJSON "
            + "BrokerModel BrokerModelSources BrokerPages BrokerReplication BrokerSchema BrokerServer BrokerSQLite "
            + "BrokerStaging BrokerStore BrokerWire ArgumentParser Logging"),
    // The structs of `broker model swift` for a package that depends on this one.
    program("brokerrecords", "BrokerJSON BrokerModel"),
    .plugin(
        name: "GenerateBrokerRecords",
        capability: .command(
            intent: .custom(verb: "generate-broker-records", description: "Writes the structs of a model."),
            permissions: [.writeToPackageDirectory(reason: "The structs are written to a file of the package.")]),
        dependencies: ["brokerrecords"], path: "Sources/GenerateBrokerRecords"),
    // Load generation, measurements, and the same work without Broker.
    program(
        "brokerload",
        "BrokerCommandLine BrokerFastJSON BrokerJSON BrokerModel BrokerSQLite BrokerWire CGlibc CSQLite "
            + "ArgumentParser Histogram"),

    // The tests: pure machines and targets first, real processes over a real socket last.
    .target(name: "FaultVFS", dependencies: dependencies("CSQLite"), path: "Tests/FaultVFS", cSettings: cWarnings),
    library(
        "TestSupport", "BrokerFastJSON BrokerJournal BrokerJSON BrokerWire CSQLite FaultVFS", path: "Tests/TestSupport"),
    tests("BrokerJSON", "BrokerJSON BrokerFastJSON"),
    tests("BrokerInput", "BrokerInput BrokerJSON CLZ4 CZlib"),
    tests("BrokerPages", "BrokerPages BrokerInput"),
    tests("BrokerConsole", "BrokerConsole Broker BrokerClient BrokerJSON BrokerModel"),
    tests("BrokerModel", "BrokerModel BrokerJSON"),
    tests("BrokerWire", "BrokerWire Broker BrokerJSON"),
    tests("Broker", "Broker BrokerJSON BrokerWire"),
    tests("BrokerStaging", "BrokerStaging BrokerJSON BrokerModel"),
    tests("BrokerModelSources", "BrokerModelSources BrokerJSON BrokerModel BrokerStaging BrokerStore CSQLite"),
    tests("BrokerJournal", "BrokerJournal"),
    tests("BrokerReplication", "BrokerReplication BrokerJSON BrokerJournal CNATS"),
    tests("BrokerStore", "BrokerStore BrokerJSON BrokerModel BrokerSchema BrokerStaging CSQLite"),
    tests(
        "BrokerCoordinator",
        "BrokerCoordinator BrokerFastJSON BrokerJSON BrokerModel BrokerSchema BrokerStaging BrokerStore CSQLite "
            + "Logging"),
    tests(
        "BrokerServer",
        "Broker BrokerServer BrokerCoordinator BrokerJSON BrokerMessages BrokerModel BrokerSchema BrokerStaging BrokerStore BrokerWire "
            + "Logging NIOCore"),
    tests(
        "BrokerClient",
        "BrokerClient Broker BrokerJSON BrokerWire InMemoryLogging InMemoryTracing Logging MetricsTestKit NIOCore "
            + "NIOEmbedded NIOPosix ServiceLifecycle ServiceLifecycleTestKit"),
    tests("BrokerEmbedded", "BrokerEmbedded Broker BrokerJSON BrokerModel BrokerStore InMemoryTracing Logging"),
    program("Embedding", "Broker BrokerEmbedded", path: "Tests/Examples/Embedding"),
    program("Handling", "Broker BrokerEmbedded", path: "Tests/Examples/Handling"),
    // Measures the client library (scripts/bench client).
    program("ClientLoad", "Broker BrokerClient", path: "Tests/Examples/ClientLoad"),
    program("CrashTest", "BrokerJournal TestSupport ArgumentParser BrokerReplication", path: "Tests/CrashTest"),
    // The fuzz targets, the program that libFuzzer runs them in (scripts/fuzz), and a test that runs their inputs.
    .systemLibrary(name: "CLibFuzzer", path: "Tests/Fuzz/CLibFuzzer"),
    library(
        "FuzzTargets",
        "BrokerCoordinator BrokerFastJSON BrokerInput BrokerJournal BrokerJSON BrokerMessages BrokerModel "
            + "BrokerModelSources BrokerSchema BrokerStaging BrokerStore BrokerWire TestSupport",
        path: "Tests/Fuzz/Targets"),
    program("Fuzz", "CLibFuzzer FuzzTargets", path: "Tests/Fuzz/Program"),
    tests("FuzzTargets", "FuzzTargets"),
    tests("LoadTesting", "brokerload BrokerCommandLine BrokerJSON BrokerWire CSQLite"),
    tests(
        "Program",
        "brokerd BrokerCommand brokerload Embedding Handling CrashTest Broker BrokerClient BrokerCommandLine "
            + "BrokerConsole BrokerEmbedded BrokerJSON BrokerModel BrokerWire CSQLite InMemoryLogging Logging ServiceLifecycle"
    ),
]

/// The names of a target and of all that it depends on.
func needed(_ name: String, in targets: [Target]) -> Set<String> {
    let dependencies = targets.first { $0.name == name }?.dependencies ?? []
    return dependencies.reduce(into: [name]) { all, dependency in
        if case .targetItem(let name, _) = dependency { all.formUnion(needed(name, in: targets)) }
    }
}

/// The words of a variable of the environment.
func names(_ variable: String) -> [String] {
    Context.environment[variable]?.split(separator: " ").map(String.init) ?? []
}

/// With `BROKER_TESTS="BrokerJSON BrokerStore"` in the environment only the tests of these targets are built, with
/// `BROKER_PROGRAMS="brokerd BrokerCommand"` only these programs, and what they need: several in one build.
let chosen = names("BROKER_TESTS").map { "\($0)Tests" } + names("BROKER_PROGRAMS")
let built = chosen.isEmpty ? Set(targets.map(\.name)) : Set(chosen.flatMap { needed($0, in: targets) })
let products: [(target: String, product: Product)] =
    ["Broker", "BrokerClient", "BrokerEmbedded"].map { ($0, .library(name: $0, targets: [$0])) }
    + [("brokerd", "brokerd"), ("BrokerCommand", "broker"), ("brokerload", "brokerload")]
    .map { ($0, .executable(name: $1, targets: [$0])) }
    + [("GenerateBrokerRecords", .plugin(name: "GenerateBrokerRecords", targets: ["GenerateBrokerRecords"]))]

let package = Package(
    name: "Broker",
    // The programs need Linux, which cannot be named here. The client can also be built for macOS, from this version on.
    platforms: [.macOS(.v15)],
    products: products.filter { built.contains($0.target) }.map(\.product),
    traits: [
        .trait(name: "Client", description: "The client, for BrokerClient, with swift-nio."),
        .trait(name: "Embedding", description: "The coordinator, for BrokerEmbedded, with the packages that it needs."),
        .trait(name: "ServiceLifecycle", description: "The brokers are services of swift-service-lifecycle."),
        // The last two include others without enabling them: SwiftPM passes the enabled traits to the compiler in an order that
        // differs from plan to plan (swift-package-manager#10525), and with two or more everything is compiled again.
        .trait(name: "Programs", description: "All of it: the libraries, the server and the commands."),
        .trait(name: "Replication", description: "All, with a log that several servers share over NATS JetStream."),
        .default(enabledTraits: ["Programs"]),
    ],
    dependencies: packages.map { .package(url: $0.url, from: $0.version) },
    targets: targets.filter { built.contains($0.name) },
    cxxLanguageStandard: .cxx17
)
