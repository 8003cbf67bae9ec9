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

/// A random case with a fault that can be made smaller.
public protocol Shrinkable {
    /// Without its `part`th part; nil when it has fewer.
    func without(part: Int) -> Self?
}

/// Looks for a smaller case that fails as a first one did: parts are taken away, one at a time, as long as it does.
///
/// ```swift
/// var shrinking = Shrinking(randomCase)
/// while let smaller = shrinking.next() { shrinking.note(fails: try run(smaller)) }
/// print(shrinking.best)
/// ```
public struct Shrinking<Case: Shrinkable> {
    public private(set) var best: Case
    private var part = 0
    private var tried: Case?
    private var isSmaller = false

    public init(_ failing: Case) { best = failing }

    /// The next one to try; nil when every part has been tried in vain.
    public mutating func next() -> Case? {
        tried = best.without(part: part)
        if tried == nil, isSmaller {
            // A part that was needed may not be needed any more.
            isSmaller = false
            part = 0
            tried = best.without(part: part)
        }
        return tried
    }

    /// - Parameter fails: the case of the last ``next()`` fails as the first one did.
    public mutating func note(fails: Bool) {
        guard let tried else { return }
        if fails {
            // A part that was taken leaves the next one in its place.
            best = tried
            isSmaller = true
        } else {
            part += 1
        }
    }
}

extension Array {
    /// Without its `part`th element; nil when it has fewer, and `part` is then less by those.
    public func without(part: inout Int) -> [Element]? {
        guard part < count else {
            part -= count
            return nil
        }
        var smaller = self
        smaller.remove(at: part)
        return smaller
    }
}

/// How many cases tests try that try many: random ones, or each operation that can fail.
public enum Cases {
    /// `scripts/test --all`, which is what CI runs, sets the variable; without it a test tries enough for a commit.
    public static let areAll = ProcessInfo.processInfo.environment["BROKER_ALL_CASES"] != nil

    public static func count<Number: BinaryInteger>(_ few: Number, of all: Number) -> Number { areAll ? all : few }
}

/// A rule that the state of a pure machine violates.
public struct InvariantViolation: Error {
    public let rule: String

    public static func require(_ holds: Bool, _ rule: String) throws(InvariantViolation) {
        if !holds { throw InvariantViolation(rule: rule) }
    }
}
