import BrokerStore
import Glibc
import TestSupport
import Testing

@testable import BrokerCoordinator

/// Coordinator, log, merge order and clients in schedules that seeds decide; `scripts/simulate` runs more of them.
@Suite(.timeLimit(.minutes(30))) struct SimulationTests {
    /// The violation, with the seed and the last steps.
    struct Failure: Error, CustomStringConvertible {
        let seed: UInt64
        let kind: Kind
        let violation: String
        let trace: [String]

        enum Kind: String {
            case noLog = ""
            case log = " log"
            case sharedLog = " shared"
        }

        var description: String {
            """
            Seed \(seed)\(kind.rawValue): \(violation)
            \(trace.joined(separator: "\n"))
            See all of it: scripts/simulate \(seed)\(kind.rawValue)
            """
        }
    }

    private static func variable(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }

    /// Runs a seed, and runs it again to report how it failed.
    private static func failure(
        _ seed: UInt64, hasLog: Bool, bug: PlantedBug? = nil, lines: Int = 40
    ) -> Failure? {
        var simulation = Simulation(seed: seed, hasLog: hasLog, bug: bug)
        guard let violation = simulation.run() else { return nil }
        var again = Simulation(seed: seed, hasLog: hasLog, bug: bug, isTraced: true)
        _ = again.run()
        return Failure(
            seed: seed, kind: hasLog ? .log : .noLog, violation: violation,
            trace: (again.trace?.lines ?? []).suffix(lines))
    }

    /// Notes which seed is running, because one that traps cannot report it.
    private static func note(_ seed: UInt64, hasLog: Bool, in file: Int32) {
        let text = Array("scripts/simulate \(seed)\(hasLog ? " log" : "")\n".utf8)
        _ = pwrite(file, text, text.count, 0)
    }

    /// The first seed of a range that fails, in as many threads as there are processors.
    private static func firstFailure(_ seeds: Range<UInt64>, hasLog: Bool) async -> Failure? {
        await withTaskGroup(of: Failure?.self) { group in
            let parts: UInt64 = 4
            for part in 0..<parts {
                group.addTask {
                    let running = variable("BROKER_SIMULATION_RUNNING").map {
                        open("\($0)/\(part)\(hasLog ? " log" : "")", O_CREAT | O_WRONLY | O_TRUNC, 0o600)
                    }
                    defer { if let running { close(running) } }
                    for seed in seeds where seed % parts == part {
                        if let running { note(seed, hasLog: hasLog, in: running) }
                        if let failure = failure(seed, hasLog: hasLog) { return failure }
                    }
                    return nil
                }
            }
            return await group.reduce(nil) { first, next in
                guard let first, let next else { return first ?? next }
                return first.seed < next.seed ? first : next
            }
        }
    }

    @Test(arguments: [false, true])
    func `whatever the schedule, each job takes effect once and in order, and nothing stalls`(hasLog: Bool) async {
        guard Self.variable("BROKER_SIMULATION_SEED") == nil else { return }
        let count = Self.variable("BROKER_SIMULATION_COUNT").flatMap { UInt64($0) } ?? Cases.count(250, of: 2_000)
        let failure = await Self.firstFailure(0..<count, hasLog: hasLog)
        #expect(failure == nil, "\(failure?.description ?? "")")
    }

    @Test(arguments: PlantedBug.allCases) func `the simulation finds a planted bug`(bug: PlantedBug) {
        guard Self.variable("BROKER_SIMULATION_SEED") == nil else { return }
        // Without a log nothing is replayed.
        let failure = (0..<2_000 as Range<UInt64>).lazy
            .compactMap { Self.failure($0, hasLog: bug == .replayOneTooLate || $0 % 2 == 0, bug: bug) }.first
        #expect(failure != nil)
        if let failure { print("\(bug): seed \(failure.seed): \(failure.violation)") }
    }

    @Test func `a seed is the same run every time`() {
        for seed in 0..<20 as Range<UInt64> {
            var traces: [[String]?] = []
            for _ in 0..<2 {
                var simulation = Simulation(seed: seed, hasLog: true, isTraced: true)
                _ = simulation.run()
                traces.append(simulation.trace?.lines)
            }
            #expect(traces[0] == traces[1])
        }
    }

    /// For `scripts/simulate SEED [log | shared]`; without it, there is nothing to do.
    @Test func `the requested seed passes`() {
        guard let seed = Self.variable("BROKER_SIMULATION_SEED").flatMap({ UInt64($0) }) else { return }
        let log = Self.variable("BROKER_SIMULATION_LOG")
        if log == "shared" {
            var simulation = SharedLogSimulation(seed: seed, isTraced: true)
            let violation = simulation.run()
            for line in simulation.trace ?? [] { print(line) }
            #expect(violation == nil, "Seed \(seed): \(violation ?? "")")
            return
        }
        var simulation = Simulation(seed: seed, hasLog: log != nil, isTraced: true)
        let violation = simulation.run()
        for line in simulation.trace?.lines ?? [] { print(line) }
        #expect(violation == nil, "Seed \(seed): \(violation ?? "")")
    }

    // MARK: - A log that three servers share

    private static func sharedFailure(_ seed: UInt64, bug: SharedLogBug? = nil) -> Failure? {
        var simulation = SharedLogSimulation(seed: seed, bug: bug)
        guard let violation = simulation.run() else { return nil }
        var again = SharedLogSimulation(seed: seed, bug: bug, isTraced: true)
        _ = again.run()
        return Failure(seed: seed, kind: .sharedLog, violation: violation, trace: (again.trace ?? []).suffix(40))
    }

    @Test func `servers that share a log apply the same jobs in the same order, and none twice`() {
        guard Self.variable("BROKER_SIMULATION_SEED") == nil else { return }
        let count = Self.variable("BROKER_SIMULATION_COUNT").flatMap { UInt64($0) } ?? Cases.count(100, of: 2_000)
        let failure = (0..<count).lazy.compactMap { Self.sharedFailure($0) }.first
        #expect(failure == nil, "\(failure?.description ?? "")")
    }

    @Test(arguments: SharedLogBug.allCases) func `the simulation of a shared log finds a planted bug`(bug: SharedLogBug)
    {
        let failure = (0..<2_000 as Range<UInt64>).lazy.compactMap { Self.sharedFailure($0, bug: bug) }.first
        #expect(failure != nil)
        if let failure { print("\(bug): seed \(failure.seed): \(failure.violation)") }
    }
}

/// A request to take a job back, while the log has no room for the job.
@Suite(.timeLimit(.minutes(5))) struct LoggedCancellationTests {
    @Test(arguments: [false, true])
    func `a job that the journal has no room for ends once, and its cancellation comes too late`(hasEnded: Bool) throws
    {
        var store = SimulatedStore(nil)
        var server = SimulatedServer(run: 0, CoordinatorLimits(workers: 1), nil, store: &store, disk: SimulatedDisk())
        let ticket = try server.admit(0, 0, from: 1)
        let frame = server.opening.removeFirst()
        server.open(frame, SimulatedMessage(kind: .job, client: 0, owner: .server, id: "a"))
        // The journal is writing the job when it is cancelled, and has room again for the cancellation.
        server.gather()
        server.cancel("a", before: ticket + 1, as: .server, 1)
        try server.reportSynced(isFull: true)
        server.stage(0)
        if hasEnded { end(&server, &store) }
        server.gather()
        try server.reportSynced(isFull: false)
        if !hasEnded { end(&server, &store) }
        for notify in server.completions { notify() }

        var ends = 0
        var answers: [String] = []
        for notice in server.notices.withLock({ $0 }) {
            switch notice {
            case .event(_, .ended): ends += 1
            case .cancellation(_, .tooLate): answers.append("tooLate")
            default: break
            }
        }
        #expect(ends == 1)
        #expect(answers == ["tooLate"])
        #expect(server.jobTable.load.count == 0 && server.jobTable.ends.count == 0)
    }

    private func end(_ server: inout SimulatedServer, _ store: inout SimulatedStore) {
        server.takeBatch(&store) { _, _, _ in }
        server.commit(&store, fails: false)
        server.settleTransaction(took: 0)
    }

    @Test func `a job that the journal had no room for is too late to be cancelled`() throws {
        var store = SimulatedStore(nil)
        var server = SimulatedServer(run: 0, CoordinatorLimits(workers: 1), nil, store: &store, disk: SimulatedDisk())
        let ticket = try server.admit(0, 0, from: 1)
        let frame = server.opening.removeFirst()
        server.open(frame, SimulatedMessage(kind: .job, client: 0, owner: .server, id: "a"))
        server.gather()
        try server.reportSynced(isFull: true)
        server.cancel("a", before: ticket + 1, as: .server, 1)
        #expect(server.log?.hasWaiting == false)
    }
}

/// A mistake in the simulated glue that the simulation must find: what finds nothing proves nothing.
enum PlantedBug: String, CaseIterable, Sendable {
    /// A job is applied though its id is committed.
    case skipDedupe
    /// Ends are sent before the transaction is durable.
    case reportBeforeCommit
    /// A job that could not be staged never reaches the merge order.
    case failedJobStalls
    /// A cancelled job is skipped at its turn, and does not end.
    case cancelLosesPlace
    /// The replay after a crash skips the first job that the store has not applied.
    case replayOneTooLate
    /// A job for which there is no memory goes to the log.
    case logsWithoutMemory
}
