// swift-tools-version: 6.2
import PackageDescription

let strict: [SwiftSetting] = [
    .swiftLanguageMode(.v6), .treatAllWarnings(as: .error), .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
]

// A file system for tests, which forgets at a power cut what was not synced. It is a package of its own, so that a package which
// depends on Broker never needs libfuse (`libfuse3-dev` of Debian).
let package = Package(
    name: "ForgetfulDisk",
    products: [.executable(name: "forgetful-disk", targets: ["forgetful-disk"])],
    targets: [
        .systemLibrary(name: "CFuse", pkgConfig: "fuse3", providers: [.apt(["libfuse3-dev"])]),
        .target(name: "Volume", swiftSettings: strict),
        .executableTarget(
            name: "forgetful-disk", dependencies: ["CFuse", "Volume"], path: "Sources/Program", swiftSettings: strict),
        .testTarget(
            name: "ForgetfulDiskTests", dependencies: ["Volume", "forgetful-disk"], path: "Tests", swiftSettings: strict
        ),
    ]
)
