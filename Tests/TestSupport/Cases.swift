import Foundation

/// How many cases tests try that try many: random ones, or each operation that can fail.
public enum Cases {
    /// `scripts/test --all`, which is what CI runs, sets the variable; without it a test tries enough for a commit.
    public static let areAll = ProcessInfo.processInfo.environment["BROKER_ALL_CASES"] != nil

    public static func count<Number: BinaryInteger>(_ few: Number, of all: Number) -> Number { areAll ? all : few }
}
