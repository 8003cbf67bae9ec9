internal import BrokerModel
internal import BrokerStaging

/// Savepoints inside a transaction: one for each job, and one for each of its steps when there are several.
struct Savepoints {
    private let begin: Statement
    private let release: Statement
    private let undo: Statement
    private let stepBegin: Statement
    private let stepRelease: Statement
    private let stepUndo: Statement

    init(on connection: Connection) throws(StoreError) {
        begin = try connection.prepare("SAVEPOINT job")
        release = try connection.prepare("RELEASE job")
        undo = try connection.prepare("ROLLBACK TO job")
        stepBegin = try connection.prepare("SAVEPOINT step")
        stepRelease = try connection.prepare("RELEASE step")
        stepUndo = try connection.prepare("ROLLBACK TO step")
    }

    func beginJob() throws(StoreError) { try begin.run() }

    func endJob() throws(MergeFailure) { try run(release) }

    func undoJob() throws(StoreError) {
        try undo.run()
        try release.run()
    }

    func beginStep() throws(MergeFailure) { try run(stepBegin) }

    func endStep() throws(MergeFailure) { try run(stepRelease) }

    /// - Parameter isSingle: the step is the whole job, whose savepoint stays.
    func undoStep(isSingle: Bool) throws(MergeFailure) {
        guard !isSingle else { return try run(undo) }
        try run(stepUndo)
        try run(stepRelease)
    }

    private func run(_ statement: Statement) throws(MergeFailure) {
        try storing { () throws(StoreError) in try statement.run() }
    }
}
