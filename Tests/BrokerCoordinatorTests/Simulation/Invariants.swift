@testable import BrokerCoordinator
import TestSupport

// The invariants of the pure machines, in linear time; the simulation checks them after every event.

extension JobTable {
    /// 1. The invariants of the machines that the table consists of.
    /// 2. Counts are those of the tickets: every job in the order is in flight. A frame in flight waits to be opened, waits
    ///    for its turn to scan, or is a job.
    /// 3. No caller waits for room while there is room.
    /// 4. Jobs that the log gets when they are staged are in flight, and have no place.
    func checkInvariants() throws(InvariantViolation) {
        try application.checkInvariants()
        try turns.checkInvariants()
        try running.checkInvariants()
        try ends.checkInvariants()
        try unrecorded.checkInvariants()
        try InvariantViolation.require(
            running.jobs.values.reduce(0) { $0 + $1.count } == jobCount, "jobs in flight are counted")
        try InvariantViolation.require(
            load.bytes >= 0 && load.unopened >= 0, "nothing ends twice")
        try InvariantViolation.require(
            (0...load.bytes).contains(load.others.bytes) && (0...load.count).contains(load.others.count),
            "what is read from the log is in flight")
        try InvariantViolation.require(
            load.count >= jobCount + load.unopened, "unopened frames and jobs are frames in flight")
        try InvariantViolation.require(application.count <= load.count, "every job in the order is in flight")
        try InvariantViolation.require(
            waiters.all.allSatisfy { !hasRoom(for: $0.source, of: $0.user) }, "callers are woken when there is room")
        try InvariantViolation.require(
            unstagedTickets.count <= jobCount, "jobs that the log gets later are in flight")
        try InvariantViolation.require(
            unstagedTickets.allSatisfy { application.holds($0) && application.place(of: $0) == nil },
            "the log has no job that is not staged")
    }
}

extension WriterTurn {
    /// Jobs remain in the order of their sequences, and only a turn without jobs lacks sequences.
    func checkInvariants() throws(InvariantViolation) {
        let positions = jobs.compactMap(\.place.position)
        try InvariantViolation.require(
            zip(positions, positions.dropFirst()).allSatisfy { $0 < $1 }, "jobs are applied in order")
        try InvariantViolation.require(shortage == nil || jobs.isEmpty, "only a turn without jobs lacks sequences")
    }
}

extension Application {
    var isEmpty: Bool { count == 0 }

    var count: Int { own.count + others.count }

    func checkInvariants() throws(InvariantViolation) {
        for entries in [own, others] {
            try InvariantViolation.require(
                zip(entries, entries.dropFirst()).allSatisfy { $0.ticket < $1.ticket }, "tickets rise")
            let positions = entries.compactMap(\.place?.position)
            try InvariantViolation.require(
                zip(positions, positions.dropFirst()).allSatisfy { $0 < $1 }, "positions rise with tickets")
            try InvariantViolation.require(positions.allSatisfy { $0 <= position }, "positions are known")
        }
        let delivered = own.prefix { $0.place != nil }.count
        try InvariantViolation.require(delivered == deliveredCount, "jobs are delivered in the order of tickets")
        try InvariantViolation.require(
            own.dropFirst(delivered).allSatisfy { $0.place?.position == nil },
            "no job is delivered before an earlier one")
    }
}

extension ScanScheduler {
    /// 1. A source is known exactly while one of its frames is being opened or waits, and it has one turn exactly while one
    ///    waits.
    /// 2. The frames of a source are in the order of arrival, and those that wait arrived after all that went on.
    func checkInvariants() throws(InvariantViolation) {
        var waitingCount = 0
        for source in sources.values {
            try InvariantViolation.require(
                !source.opening.isEmpty || !source.waiting.isEmpty, "a source without frames is forgotten")
            let waiting = source.waiting.map(\.arrival)
            for arrivals in [Array(source.opening), waiting] {
                try InvariantViolation.require(
                    zip(arrivals, arrivals.dropFirst()).allSatisfy { $0 < $1 }, "frames are in the order of arrival")
            }
            if let first = waiting.first {
                waitingCount += 1
                try InvariantViolation.require(first > source.newestGone, "no frame overtakes one of its source")
            }
        }
        try InvariantViolation.require(
            turns.count == waitingCount && Set(turns).count == waitingCount
                && turns.allSatisfy { sources[$0]?.waiting.isEmpty == false },
            "each source that waits has one turn")
    }
}

extension RunningJobs {
    /// The jobs of each id are in the order of their tickets.
    func checkInvariants() throws(InvariantViolation) {
        for running in jobs.values {
            let tickets = running.map(\.job.ticket)
            try InvariantViolation.require(
                zip(tickets, tickets.dropFirst()).allSatisfy { $0 < $1 }, "the jobs of an id are in order")
        }
    }
}

extension CompletionBarrier {
    /// Every job is in the line of all and in that of its source, a source without
    /// jobs is forgotten, and no waiter waits for nothing.
    func checkInvariants() throws(InvariantViolation) {
        try all.checkInvariants()
        for line in lines.values {
            try line.checkInvariants()
            try InvariantViolation.require(!line.isEmpty, "a source without jobs is forgotten")
        }
        try InvariantViolation.require(
            lines.values.reduce(0) { $0 + $1.jobs.count } == count, "each job is in the line of its source")
        try InvariantViolation.require(ready.isEmpty, "waiters whose jobs have ended are called")
    }
}

extension CompletionBarrier.Line {
    func checkInvariants() throws(InvariantViolation) {
        try InvariantViolation.require(
            zip(jobs, jobs.dropFirst()).allSatisfy { $0.ticket < $1.ticket }, "the jobs in flight are in order")
        try InvariantViolation.require(
            waiting.allSatisfy { hasJob(before: $0.ticket) },
            "a caller waits only while a job before it is in flight")
        try InvariantViolation.require(
            zip(waiting, waiting.dropFirst()).allSatisfy { $0.ticket <= $1.ticket }, "waiters are in order")
    }
}

extension UnrecordedFailures {
    /// The number is limited, and each failure is found by its own id.
    func checkInvariants() throws(InvariantViolation) {
        try InvariantViolation.require(failures.count <= Self.maximumCount, "unrecorded failures are limited")
        try InvariantViolation.require(
            failures.allSatisfy { $0.key == JobID($0.value.job.id) }, "a failure is found by its id")
    }
}

extension StreamTable {
    /// The open streams are limited and counted, and each process that waits has one turn.
    func checkInvariants() throws(InvariantViolation) {
        let queued = queue.flatMap(\.numbers)
        try InvariantViolation.require(open.count <= limits.open, "open streams are limited")
        try InvariantViolation.require(
            asked.count == open.values.count { $0.phase == .asked } && asked.allSatisfy { open[$0]?.phase == .asked },
            "the streams that were asked are counted")
        try InvariantViolation.require(
            queued.allSatisfy { open[$0] == nil } && Set(queued).count == queued.count, "a stream waits once or is open"
        )
        try InvariantViolation.require(
            queue.allSatisfy { !$0.numbers.isEmpty } && Set(queue.map(\.process)).count == queue.count,
            "each process that waits has one turn")
    }
}
