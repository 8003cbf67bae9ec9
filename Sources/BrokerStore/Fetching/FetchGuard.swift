internal import CSQLite

/// Ends a fetch that takes too long, or that nobody wants any more, in the middle of a statement. Belongs to the
/// connection's thread.
final class FetchGuard {
    /// Steps of SQLite's machine between two looks: a fraction of a millisecond.
    private static let stepsPerLook = 5_000

    private let connection: Connection
    private var looks: Int?
    private let isWanted: () -> Bool
    /// Why the statement was interrupted; nil when it was not.
    private(set) var failure: FetchFailure?

    init(_ connection: Connection, steps: Int?, isWanted: @escaping () -> Bool) {
        self.connection = connection
        looks = steps.map { $0 / Self.stepsPerLook }
        self.isWanted = isWanted
    }

    /// Runs `body` under guard.
    func watch<Result>(_ body: () throws(FetchFailure) -> Result) throws(FetchFailure) -> Result {
        let own = Unmanaged.passUnretained(self).toOpaque()
        sqlite3_progress_handler(
            connection.handle, Int32(Self.stepsPerLook),
            { Unmanaged<FetchGuard>.fromOpaque($0!).takeUnretainedValue().look() ? 1 : 0 }, own)
        defer { sqlite3_progress_handler(connection.handle, 0, nil, nil) }
        do throws(FetchFailure) {
            return try body()
        } catch {
            throw failure ?? error
        }
    }

    /// - Returns: whether to interrupt.
    private func look() -> Bool {
        if let left = looks {
            looks = left - 1
            if left <= 0 { failure = .tooLong }
        }
        if !isWanted() { failure = .stopped }
        return failure != nil
    }
}
