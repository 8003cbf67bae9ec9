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

    package var bytes: [UInt8] = []
    package var jobs: [Job] = []

    package init() {}

    package mutating func append(_ frame: some Collection<UInt8>, contentBytes: Int, records: Int) {
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
        var next = 0
        var bytes = 0
        var isFull = false
        var isFinished = false
        var isStopped = false
        var isReaderWaiting = false
        var failure: LoadError?
        var waits = 0
    }

    private let state = Mutex(State())
    private let room = DispatchSemaphore(value: 0)
    private let items = DispatchSemaphore(value: 0)
    private let prepared = DispatchSemaphore(value: 0)
    private let budget: Int

    /// - Parameters:
    ///   - jobs: how many there are; nil is no end.
    ///   - budget: bytes of frames that wait at most.
    package init(_ options: JobOptions, jobs: Int?, budget: Int) {
        self.budget = budget
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
        while true {
            let (chunk, isOver, failure): (PreparedFrames?, Bool, LoadError?) = state.withLock { state in
                if state.next < state.chunks.count {
                    let chunk = state.chunks[state.next]
                    state.chunks[state.next] = PreparedFrames()
                    state.next += 1
                    state.bytes -= chunk.bytes.count
                    if state.isFull, state.bytes <= budget / 2 {
                        state.isFull = false
                        room.signal()
                    }
                    return (chunk, false, nil)
                }
                if state.isFinished { return (nil, true, state.failure) }
                state.isReaderWaiting = true
                state.waits += 1
                return (nil, false, nil)
            }
            if let chunk { return chunk }
            if let failure { throw failure }
            if isOver { return nil }
            items.wait()
        }
    }

    /// No more frames are wanted.
    package func stop() {
        let wasFull = state.withLock { state in
            state.isStopped = true
            defer { state.isFull = false }
            return state.isFull
        }
        if wasFull { room.signal() }
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
        let (isFull, wakes) = state.withLock { state in
            if state.next > 1_024 {
                state.chunks.removeFirst(state.next)
                state.next = 0
            }
            state.chunks.append(chunk)
            state.bytes += chunk.bytes.count
            state.isFull = state.bytes >= budget && !state.isStopped
            defer { state.isReaderWaiting = false }
            return (state.isFull, state.isReaderWaiting)
        }
        if wakes { items.signal() }
        if isFull {
            prepared.signal()
            room.wait()
        }
    }

    private func finish(_ failure: LoadError?) {
        let wakes = state.withLock { state in
            state.isFinished = true
            state.failure = failure
            defer { state.isReaderWaiting = false }
            return state.isReaderWaiting
        }
        if wakes { items.signal() }
        prepared.signal()
    }
}
