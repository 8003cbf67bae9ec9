import Foundation

/// How long a test waits for what must come before it fails: far longer than anything takes on an idle machine.
///
/// `scripts/test` measures how much longer the machine takes now, and says so in `BROKER_TEST_SCALE`.
public enum Patience {
    /// At least 1.
    public static let scale = ProcessInfo.processInfo.environment["BROKER_TEST_SCALE"].flatMap { Int($0) } ?? 1

    public static let seconds = 60 * scale
    public static let microseconds = Int64(seconds) * 1_000_000
    public static let duration = Duration.seconds(seconds)
}
