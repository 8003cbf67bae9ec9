internal import BrokerFastJSON
internal import BrokerJSON
internal import Dispatch
internal import Glibc
internal import Synchronization

/// The least that one-record jobs cost when each is durable before its answer: a loop that reads what is there from a
/// socket, upserts, commits once for all of it, and answers. Neither LZ4 nor ids, and a ledger only if it is asked for.
///
/// A job is a 4-byte length and the JSON of a record, an answer is one byte.
package struct GroupBaseline {
    package var path: String
    package var records: RecordOptions
    /// Jobs without an answer, which is how many one commit serves at most.
    package var inFlight: Int
    package var jobs: Int
    /// Each job is noted in a table in the transaction of its record, as it must be where none may be applied twice.
    package var hasLedger = false

    /// More would not fit the buffers of the socket, and both sides would wait.
    package static let mostInFlight = 400

    package init(path: String, records: RecordOptions, inFlight: Int, jobs: Int) {
        self.path = path
        self.records = records
        self.inFlight = inFlight
        self.jobs = jobs
    }

    package func run() throws -> BaselineReport {
        var sockets: [Int32] = [0, 0]
        guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &sockets) == 0 else {
            throw LoadError(.failed, "There is no pair of sockets: \(String(cString: strerror(errno))).")
        }
        defer { for socket in sockets { close(socket) } }
        let database = try BaselineDatabase(path: path, options: records)
        if hasLedger { try database.makeLedger() }
        let (client, server) = (sockets[0], sockets[1])
        let frames = makeFrames()
        let measured = Mutex<(seconds: Double, latencies: LatencyHistogram)?>(nil)
        let isDone = DispatchSemaphore(value: 0)
        DispatchQueue(label: "brokerload.group").async { [inFlight] in
            let result = Self.ask(client, frames, inFlight)
            measured.withLock { $0 = result }
            shutdown(client, Int32(SHUT_WR))
            isDone.signal()
        }
        let commits = try serve(server, database)
        isDone.wait()
        guard let result = measured.withLock({ $0 }) else {
            throw LoadError(.failed, "The loop ended before all of its jobs were answered.")
        }
        return BaselineReport(
            amount: jobs, unit: "jobs", seconds: result.seconds, commits: commits, latencies: result.latencies)
    }

    private func makeFrames() -> [[UInt8]] {
        var generator = GeneratedRecords(records)
        return (0..<jobs).map { number in
            var frame: [UInt8] = [0, 0, 0, 0]
            generator.write(number, to: &frame)
            withUnsafeBytes(of: UInt32(frame.count - 4).bigEndian) { frame.replaceSubrange(0..<4, with: $0) }
            return frame
        }
    }

    // MARK: - The loop

    /// - Returns: how many commits it made.
    private func serve(_ socket: Int32, _ database: BaselineDatabase) throws -> Int {
        var buffer = [UInt8](repeating: 0, count: 1 << 20)
        var filled = 0
        var (commits, noted) = (0, Int64(0))
        while true {
            let count = read(socket, &buffer[filled], buffer.count - filled)
            guard count > 0 else { return commits }
            filled += count
            var place = 0
            var answers: [UInt8] = []
            try database.begin()
            while filled - place >= 4 {
                let length = buffer[place..<place + 4].reduce(0) { $0 << 8 | Int($1) }
                guard filled - place - 4 >= length else { break }
                noted += 1
                try upsert(buffer[place + 4..<place + 4 + length], noted, database)
                answers.append(1)
                place += 4 + length
            }
            try database.commit()
            commits += 1
            buffer.withUnsafeMutableBytes {
                $0.baseAddress!.copyMemory(from: $0.baseAddress! + place, byteCount: filled - place)
            }
            filled -= place
            guard send(socket, answers, answers.count, Int32(MSG_NOSIGNAL)) == answers.count else { return commits }
        }
    }

    private func upsert(
        _ record: ArraySlice<UInt8>, _ sequence: Int64, _ database: BaselineDatabase
    ) throws {
        let document = try JSONDocument(fast: record.withUnsafeBytes { JSONText(copying: $0) })
        // As it must be where one job may fail and the others not.
        try database.savepoint()
        try database.upsert(document.root)
        if hasLedger { try database.note(job: sequence) }
        try database.release()
        withExtendedLifetime(document) {}
    }

    // MARK: - Who asks

    /// Nil when the loop ended before.
    private static func ask(
        _ socket: Int32, _ frames: [[UInt8]], _ inFlight: Int
    ) -> (seconds: Double, latencies: LatencyHistogram)? {
        var latencies = LatencyHistogram()
        var sentAt = [UInt64](repeating: 0, count: frames.count)
        var answers = [UInt8](repeating: 0, count: 4 << 10)
        var (sent, answered) = (0, 0)
        let start = monotonicNanoseconds()
        while answered < frames.count {
            let end = min(frames.count, answered + inFlight)
            if end > sent {
                let bytes = Array(frames[sent..<end].joined())
                let now = monotonicNanoseconds()
                for job in sent..<end { sentAt[job] = now }
                guard send(socket, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count else { return nil }
                sent = end
            }
            let count = read(socket, &answers, answers.count)
            guard count > 0 else { return nil }
            let now = monotonicNanoseconds()
            for job in answered..<answered + count { latencies.record(now - sentAt[job]) }
            answered += count
        }
        return (Double(monotonicNanoseconds() - start) / 1e9, latencies)
    }
}
