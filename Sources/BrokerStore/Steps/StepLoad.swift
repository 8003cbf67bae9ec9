internal import BrokerModel

/// What the steps of a job have made SQLite do beyond what the job's own bytes stand for, so that a small job of many
/// operations does not keep the writer for long: how far they searched, and how many rows followed renamings.
///
/// The greatest step does not count: one operation may look at everything there is.
struct StepLoad {
    /// Together, in instructions of SQLite's virtual machine: some tenths of a second.
    static let maximum = 4_000_000
    /// What a row stands for that follows a renaming, in such instructions, about.
    static let instructionsPerRow = 25

    private var total = 0
    private var greatest = 0

    /// - Throws: a fault when it is too much for one job.
    mutating func note(searched instructions: Int, following rows: Int, at pointer: String) throws(MergeFailure) {
        let load = instructions + rows * Self.instructionsPerRow
        total += load
        greatest = max(greatest, load)
        guard total - greatest > Self.maximum else { return }
        throw .fault(
            .busy(
                "The operations of this job look through too many objects together, or rename what too many others "
                    + "refer to, and nothing else can be stored meanwhile. Send each `delete` and `sync` with `where`, "
                    + "and each renaming, as a job of its own.", path: pointer))
    }
}
