import ArgumentParser
import BrokerCoordinator
import BrokerServer
import BrokerStore
import BrokerWire
import Glibc

/// What the server takes on at once, and how long it remembers.
struct LimitOptions: ParsableArguments {
    @Option(help: "Threads that decode and stage. Two at least, so that a large job does not hold up the small ones.")
    var workers = max(2, Int(sysconf(Int32(_SC_NPROCESSORS_ONLN))))

    @Option(help: ArgumentHelp("Bytes of a frame at most.", valueName: "bytes"))
    var maxFrameBytes = FrameLimits.largestPayloadCount

    @Option(help: ArgumentHelp("Bytes of a frame's decoded content at most.", valueName: "bytes"))
    var maxContentBytes = FrameLimits.defaultMaximumContentCount

    @Option(help: ArgumentHelp("Bytes of jobs in flight before clients have to wait.", valueName: "bytes"))
    var maxBytesInFlight = CoordinatorLimits.defaultBytes

    @Option(help: ArgumentHelp("Jobs in flight before clients have to wait.", valueName: "count"))
    var maxJobsInFlight = CoordinatorLimits.defaultJobs

    @Option(help: ArgumentHelp("Jobs of one connection in flight before it has to wait.", valueName: "count"))
    var jobsPerConnection = ServerOptions.defaultJobsPerConnection

    @Option(help: ArgumentHelp("Connections at a time.", valueName: "count"))
    var connections = ServerOptions.defaultConnections

    @Option(help: ArgumentHelp("Outcomes of jobs that are remembered at most.", valueName: "count"))
    var keepOutcomes = LedgerRetention.defaultCount

    @Option(help: ArgumentHelp("How long the outcome of a job is remembered.", valueName: "seconds"))
    var keepOutcomesSeconds = LedgerRetention.defaultSeconds

    mutating func validate() throws {
        let numbers = [
            workers, maxFrameBytes, maxContentBytes, maxBytesInFlight, maxJobsInFlight, jobsPerConnection, connections,
            keepOutcomes, keepOutcomesSeconds,
        ]
        guard numbers.allSatisfy({ $0 > 0 }) else { throw ValidationError("Every limit must be greater than zero.") }
        guard maxFrameBytes <= FrameLimits.largestPayloadCount else {
            throw ValidationError("A frame holds at most \(FrameLimits.largestPayloadCount) bytes.")
        }
    }

    var coordinator: CoordinatorLimits {
        var limits = CoordinatorLimits(workers: workers)
        limits.bytes = maxBytesInFlight
        limits.jobs = maxJobsInFlight
        return limits
    }

    var frames: FrameLimits {
        FrameLimits(maximumPayloadCount: maxFrameBytes, maximumContentCount: maxContentBytes)
    }
}
