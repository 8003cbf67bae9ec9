import Foundation

/// SplitMix64 (Steele, Lea, Flood 2014): the same numbers for the same seed on every machine.
public struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    public init(seed: UInt64) { state = seed }

    /// With the seed of the test, see `testSeed(for:)`.
    public init(for name: String = #function) { state = Self.testSeed(for: name) }

    /// The seed of the test with this name, which is printed so that a failure can be repeated.
    ///
    /// Without `BROKER_RANDOM_SEED` it follows from the name (FNV-1a), so that a run fails because of what changed in the sources.
    /// `BROKER_RANDOM_SEED=random` chooses another in each run, which finds what no fixed seed has found; a number is the seed.
    public static func testSeed(for name: String = #function) -> UInt64 {
        let variable = ProcessInfo.processInfo.environment["BROKER_RANDOM_SEED"]
        let seed: UInt64
        if variable == "random" {
            seed = .random(in: 0...UInt64.max)
        } else if let variable {
            guard let number = UInt64(variable) else { fatalError("BROKER_RANDOM_SEED is a number or `random`") }
            seed = number
        } else {
            seed = name.utf8.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x0100_0000_01B3 }
        }
        print("\(name): seed \(seed)")
        return seed
    }

    public mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
