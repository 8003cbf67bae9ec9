internal import Glibc
internal import Synchronization

/// Whether the thread that writes to a store makes progress, for an observer on another thread, such as a watchdog.
///
/// The thread makes progress when one of these changes:
///
///  1. the steps: a job was applied, an attempt to get a lock has ended, or SQLite has executed some instructions
///     (`WorkMeter`), as in a long statement of a migration;
///  2. the bytes that the thread has read and written, as the kernel counts them, also while SQLite copies the WAL.
///
/// A thread that waits for jobs is healthy without progress.
package final class WriterActivity: Sendable {
    /// The state at one moment.
    package struct Sample: Sendable, Equatable {
        package var isWaiting: Bool
        package var steps: Int
        package var bytes: Int

        package init(isWaiting: Bool = false, steps: Int = 0, bytes: Int = 0) {
            self.isWaiting = isWaiting
            self.steps = steps
            self.bytes = bytes
        }

        /// Whether the thread is healthy, by an earlier sample.
        package func isHealthy(after earlier: Sample) -> Bool { isWaiting || self != earlier }
    }

    private let steps = Atomic<Int>(0)
    private let isWaiting = Atomic<Bool>(false)
    /// The kernel's file of the thread's counters (proc(5)); empty before ``begin()``.
    private let counters = Mutex("")

    package init() {}

    /// The calling thread is the one that works on the store from now on.
    package func begin() {
        var target = [UInt8](repeating: 0, count: 64)
        let count = target.withUnsafeMutableBytes { buffer in
            readlink("/proc/thread-self", buffer.baseAddress!.assumingMemoryBound(to: CChar.self), buffer.count)
        }
        // Without the counters, the steps alone count.
        let thread = String(decoding: target.prefix(max(0, count)), as: UTF8.self)
        counters.withLock { $0 = "/proc/\(thread)/io" }
        advance()
    }

    /// The thread has done a part of its work.
    package func advance() { steps.add(1, ordering: .relaxed) }

    /// Runs `body`, in which the thread waits for work.
    package func wait<Result>(_ body: () -> Result) -> Result {
        isWaiting.store(true, ordering: .relaxed)
        defer { isWaiting.store(false, ordering: .relaxed) }
        return body()
    }

    package var sample: Sample {
        Sample(
            isWaiting: isWaiting.load(ordering: .relaxed), steps: steps.load(ordering: .relaxed),
            bytes: Self.bytes(counters.withLock { $0 }))
    }

    /// The sum of `rchar` and `wchar`; 0 when the file cannot be read.
    private static func bytes(_ path: String) -> Int {
        guard let file = fopen(path, "r") else { return 0 }
        defer { fclose(file) }
        var buffer = [UInt8](repeating: 0, count: 512)
        let count = fread(&buffer, 1, buffer.count, file)
        let lines = String(decoding: buffer.prefix(count), as: UTF8.self).split(separator: "\n")
        return lines.filter { $0.hasPrefix("rchar") || $0.hasPrefix("wchar") }
            .reduce(0) { $0 &+ (Int($1.drop { $0 != " " }.dropFirst()) ?? 0) }
    }
}
