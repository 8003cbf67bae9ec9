internal import BrokerStaging

/// Savepoints inside a transaction: one for each job, and one for each of its steps when there are several.
struct Savepoints {
    private struct Savepoint {
        let begin: Statement
        let release: Statement
        let undo: Statement

        init(_ name: String, on connection: Connection) throws(StoreError) {
            begin = try connection.prepare("SAVEPOINT \(name)")
            release = try connection.prepare("RELEASE \(name)")
            undo = try connection.prepare("ROLLBACK TO \(name)")
        }
    }

    private let job: Savepoint
    private let step: Savepoint
    /// The savepoint of a record. That of a nested record is inside the outer one, and has the same name.
    private let record: Savepoint

    init(on connection: Connection) throws(StoreError) {
        job = try Savepoint("job", on: connection)
        step = try Savepoint("step", on: connection)
        record = try Savepoint("record", on: connection)
    }

    func beginJob() throws(StoreError) { try job.begin.run() }

    func endJob() throws(MergeFailure) { try run(job.release) }

    func undoJob() throws(StoreError) {
        try job.undo.run()
        try job.release.run()
    }

    func beginStep() throws(MergeFailure) { try run(step.begin) }

    func endStep() throws(MergeFailure) { try run(step.release) }

    func beginRecord() throws(StoreError) { try record.begin.run() }

    func endRecord() throws(StoreError) { try record.release.run() }

    func undoRecord() throws(StoreError) {
        try record.undo.run()
        try record.release.run()
    }

    /// - Parameter isSingle: the step is the whole job, whose savepoint stays.
    func undoStep(isSingle: Bool) throws(MergeFailure) {
        guard !isSingle else { return try run(job.undo) }
        try run(step.undo)
        try run(step.release)
    }

    private func run(_ statement: Statement) throws(MergeFailure) {
        try storing { () throws(StoreError) in try statement.run() }
    }
}
