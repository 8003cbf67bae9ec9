internal import BrokerJSON
internal import BrokerWire
internal import Dispatch
internal import Synchronization

/// Some jobs of a run as frames, one after the other.
package struct PreparedFrames: Sendable {
    package struct Job: Sendable {
        /// Where its frame is.
        package let place: Range<Int>
        /// Bytes of the message, before it was compressed.
        package let contentBytes: Int
        package let records: Int
    }

    private(set) var bytes: [UInt8] = []
    private(set) var jobs: [Job] = []

    mutating func append(_ frame: some Collection<UInt8>, contentBytes: Int, records: Int) {
        let start = bytes.count
        bytes.append(contentsOf: frame)
        jobs.append(Job(place: start..<bytes.count, contentBytes: contentBytes, records: records))
    }
}

/// Frames on their way from the thread that makes them to the one that sends them, limited by bytes.
///
/// The maker runs on a dispatch queue of its own. The sender waits for frames only when the maker is too slow, and
/// these waits are counted (``waits``).
package final class FrameSupply: Sendable {
    /// Bytes of frames that are passed on at once.
    private static let chunkBytes = 256 << 10

    private struct State {
        var chunks: [PreparedFrames] = []
        var failure: LoadError?
        var isStopped = false
        var waits = 0
    }

    private let state = Mutex(State())
    /// Chunks that may still wait, and those that do; the end counts as one.
    private let room = DispatchSemaphore(value: 0)
    private let items = DispatchSemaphore(value: 0)
    /// Signalled when there is no room, and at the end.
    private let prepared = DispatchSemaphore(value: 0)

    /// - Parameters:
    ///   - jobs: how many there are; nil is no end.
    ///   - budget: bytes of frames that wait at most.
    package init(_ options: JobOptions, jobs: Int?, budget: Int) {
        // A semaphore that ends below its initial value is a crash.
        for _ in 0..<max(1, budget / Self.chunkBytes) { room.signal() }
        DispatchQueue(label: "brokerload.frames").async { [self] in make(JobSource(options), jobs) }
    }

    /// How often the sender had to wait: the harness was the limit then.
    package var waits: Int { state.withLock { $0.waits } }

    /// Waits until all frames are made, or as many as may wait.
    package func prepare() throws(LoadError) {
        prepared.wait()
        if let failure = state.withLock({ $0.failure }) { throw failure }
    }

    /// The next frames; nil after the last.
    package func next() throws(LoadError) -> PreparedFrames? {
        if items.wait(timeout: .now()) == .timedOut {
            state.withLock { $0.waits += 1 }
            items.wait()
        }
        let (chunk, failure) = state.withLock { ($0.chunks.isEmpty ? nil : $0.chunks.removeFirst(), $0.failure) }
        if let chunk {
            room.signal()
            return chunk
        }
        // The end stays the end.
        items.signal()
        if let failure { throw failure }
        return nil
    }

    /// No more frames are wanted.
    package func stop() {
        state.withLock { $0.isStopped = true }
        room.signal()
    }

    // MARK: - The thread that makes them

    private func make(_ source: JobSource, _ jobs: Int?) {
        var source = source
        var encoder = FrameEncoder()
        var chunk = PreparedFrames()
        var made = 0
        while jobs.map({ made < $0 }) ?? true, !state.withLock({ $0.isStopped }) {
            let job: JobContent
            do throws(JSONError) {
                job = try source.next()
            } catch {
                return finish(LoadError(.failed, "The records of job \(made) are not one JSON value: \(error)."))
            }
            do throws(WireError) {
                chunk.append(try encoder.encode(job.bytes), contentBytes: job.bytes.count, records: job.records)
            } catch {
                return finish(LoadError(.usage, "Job \(made) fits no frame: \(error.message) Lower --records."))
            }
            made += 1
            if chunk.bytes.count >= Self.chunkBytes {
                hand(chunk)
                chunk = PreparedFrames()
            }
        }
        if !chunk.jobs.isEmpty { hand(chunk) }
        finish(nil)
    }

    private func hand(_ chunk: PreparedFrames) {
        if room.wait(timeout: .now()) == .timedOut {
            prepared.signal()
            room.wait()
        }
        state.withLock { $0.chunks.append(chunk) }
        items.signal()
    }

    private func finish(_ failure: LoadError?) {
        state.withLock { $0.failure = failure }
        items.signal()
        prepared.signal()
    }
}
