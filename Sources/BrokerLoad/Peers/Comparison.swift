internal import Glibc

/// Runs Broker and its peers on the same records, one after the other, each with files and servers of its own.
package struct Comparison {
    package struct Options: Sendable {
        package var records: RecordOptions
        package var jobs = 20
        package var recordsOfJob = 5_000
        package var smallJobs = 20_000
        package var inFlight = 64
        package var rounds = 1
        package var peers: Set<Peer> = Set(Peer.allCases)
        /// The program; a name is looked for on the PATH.
        package var brokerd: String
        package var sqliteUtils = "sqlite-utils"
        /// Where the work folder is made; nil is where temporary files go.
        package var folder: String?

        package init(records: RecordOptions, brokerd: String) {
            self.records = records
            self.brokerd = brokerd
        }

        package var count: Int { jobs * recordsOfJob }
    }

    private let options: Options
    private let folder: WorkFolder
    /// The records as one JSON array, and a record a line.
    private let array = "records.json"
    private let lines = "records.ndjson"

    package init(_ options: Options) throws(LoadError) {
        self.options = options
        folder = try WorkFolder(in: options.folder)
        try writeRecords()
    }

    /// Ends the running processes, and deletes the folder; nothing can be run after it.
    package func abandon() {
        ChildProcess.stopAll()
        folder.remove()
    }

    /// - Parameter progress: called before each peer and round.
    package func run(_ progress: (String) -> Void) throws(LoadError) -> [PeerResult] {
        var results: [PeerResult] = []
        for work in [PeerResult.Work.bulk, .oneByOne] {
            for peer in Peer.allCases where options.peers.contains(peer) {
                guard var result = Self.result(peer, work) else { continue }
                if let missing = missing(peer) {
                    result.skipped = missing
                } else {
                    for round in 0..<options.rounds {
                        progress("\(work.rawValue): \(peer.rawValue), round \(round + 1) of \(options.rounds)")
                        result.perSecond.append(try run(peer, work))
                    }
                }
                results.append(result)
            }
        }
        return results
    }

    /// Nil for what a peer does not do.
    private static func result(_ peer: Peer, _ work: PeerResult.Work) -> PeerResult? {
        let means: String
        switch (peer, work) {
        case (.baseline, .bulk): means = "one thread, simdjson, prepared upserts, 10,000 rows a transaction"
        case (.baseline, .oneByOne): means = "one thread, a commit for all that is there, over a pair of sockets"
        case (.broker, .bulk): means = "jobs of many records"
        case (.broker, .oneByOne): means = "one-record jobs with ids"
        case (.sqliteUtils, .bulk): means = "sqlite-utils upsert, with the start of Python"
        case (.sqlite3, .bulk): means = "json_each of the whole file, one INSERT … ON CONFLICT"
        case (.postgres, .bulk): means = "COPY of JSON lines, one INSERT … ON CONFLICT"
        case (.redis, .oneByOne): means = "SET of the JSON, appendfsync always"
        default: return nil
        }
        return PeerResult(peer: peer, work: work, means: means, perSecond: [])
    }

    private func missing(_ peer: Peer) -> String? {
        let program: String
        switch peer {
        case .baseline: return nil
        case .broker: program = options.brokerd
        case .sqliteUtils: program = options.sqliteUtils
        case .sqlite3: program = "sqlite3"
        case .redis: program = "redis-server"
        case .postgres: return PostgresPeer.missing
        }
        return ProgramPath.find(program) == nil ? "\(program) is not installed" : nil
    }

    private func writeRecords() throws(LoadError) {
        var generator = GeneratedRecords(options.records)
        var array: [UInt8] = [UInt8(ascii: "[")]
        var lines: [UInt8] = []
        for number in 0..<options.count {
            if number > 0 { array.append(UInt8(ascii: ",")) }
            let start = array.count
            generator.write(number, to: &array)
            lines += array[start...]
            lines.append(UInt8(ascii: "\n"))
        }
        array.append(UInt8(ascii: "]"))
        try folder.write(array, to: self.array)
        try folder.write(lines, to: self.lines)
    }

    // MARK: - The peers

    private func run(_ peer: Peer, _ work: PeerResult.Work) throws(LoadError) -> Double {
        switch (peer, work) {
        case (.baseline, .bulk): return try baseline()
        case (.baseline, .oneByOne): return try groupBaseline()
        case (.broker, _): return try broker(work)
        case (.sqliteUtils, _): return try sqliteUtils()
        case (.sqlite3, _): return try sqlite3()
        case (.postgres, _):
            let peer = PostgresPeer(folder: folder, layout: RecordLayout(options.records))
            return Double(options.count) / (try peer.load(lines))
        case (.redis, _):
            let peer = RedisPeer(folder: folder, records: options.records)
            return try peer.load(options.smallJobs, inFlight: options.inFlight)
        }
    }

    private func jobOptions(_ recordsOfJob: Int) -> JobOptions {
        var job = JobOptions(.generated(options.records, .allNew))
        job.recordsOfJob = recordsOfJob
        return job
    }

    private func baseline() throws(LoadError) -> Double {
        let baseline = Baseline(path: folder.file("baseline.sqlite"), records: options.records)
        let payloads = Baseline.payloads(jobOptions(options.recordsOfJob), jobs: options.jobs)
        return try baseline.load([payloads])[0].recordsPerSecond
    }

    private func groupBaseline() throws(LoadError) -> Double {
        let inFlight = min(options.inFlight, GroupBaseline.mostInFlight)
        return try GroupBaseline(
            path: folder.file("group.sqlite"), records: options.records, inFlight: inFlight, jobs: options.smallJobs
        ).run().jobsPerSecond
    }

    private func broker(_ work: PeerResult.Work) throws(LoadError) -> Double {
        for suffix in ["", "-wal", "-shm", ".lock"] { remove("store.sqlite" + suffix) }
        try folder.write(Array(RecordLayout(options.records).model.utf8), to: "model.json")
        let program = ProgramPath.find(options.brokerd) ?? options.brokerd
        let log = folder.file("brokerd.log")
        let server = try ChildProcess(
            program, ["--model", "model.json", "--store", "store.sqlite", "--socket", "broker.sock"], in: folder.path,
            output: log)
        defer { server.stop() }
        try server.wait(
            until: { ProcessUsage.text(log)?.contains("ready") ?? false }, name: "brokerd", log: log)
        let isBulk = work == .bulk
        let job = jobOptions(isBulk ? options.recordsOfJob : 1)
        let jobs = isBulk ? options.jobs : options.smallJobs
        var run = RunOptions(
            socketPath: folder.file("broker.sock"), schedule: Schedule(.closed, .jobs(jobs)))
        run.inFlight = isBulk ? 8 : options.inFlight
        let supply = FrameSupply(job, jobs: jobs, budget: 1 << 30)
        let result = try LoadRun(run, supply: supply, idPrefix: job.idPrefix).run()
        guard result.totals.ok == jobs else {
            throw LoadError(.failed, "Broker did \(result.totals.ok) of \(jobs) jobs; nothing can be compared.")
        }
        return result.recordsPerSecond
    }

    private func sqliteUtils() throws(LoadError) -> Double {
        remove("utils.sqlite")
        let layout = RecordLayout(options.records)
        let program = ProgramPath.find(options.sqliteUtils) ?? options.sqliteUtils
        return Double(options.count)
            / (try seconds(
                program, ["upsert", "utils.sqlite", layout.entity, array, "--pk", "id"], log: "sqlite-utils.log"))
    }

    private func sqlite3() throws(LoadError) -> Double {
        for suffix in ["", "-wal", "-shm"] { remove("plain.sqlite" + suffix) }
        let tables = PeerTables(layout: RecordLayout(options.records), dialect: .sqlite)
        let script =
            ["PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", "PRAGMA cache_size = -65536"] + tables.create
            + ["BEGIN"] + tables.upserts(from: "json_each(readfile('\(array)'))") + ["COMMIT"]
        try folder.write(Array((script.joined(separator: ";\n") + ";\n").utf8), to: "plain.sql")
        let program = ProgramPath.find("sqlite3") ?? "sqlite3"
        return Double(options.count)
            / (try seconds(program, ["-bail", "plain.sqlite"], input: "plain.sql", log: "sqlite3.log"))
    }

    private func seconds(
        _ program: String, _ arguments: [String], input: String? = nil, log: String
    ) throws(LoadError) -> Double {
        let start = monotonicNanoseconds()
        let process = try ChildProcess(
            program, arguments, in: folder.path, input: input.map { folder.file($0) }, output: folder.file(log))
        let status = process.wait()
        let seconds = Double(monotonicNanoseconds() - start) / 1e9
        guard status == 0 else {
            let said = (ProcessUsage.text(folder.file(log)) ?? "").split(separator: "\n").last.map(String.init)
            throw LoadError(.failed, "\(program) failed with status \(status): \(said ?? "it says nothing").")
        }
        return seconds
    }

    private func remove(_ name: String) { unlink(folder.file(name)) }
}
