import ArgumentParser
import BrokerCommandLine
import BrokerLoad
import BrokerWire

/// The options of a run's jobs.
struct JobArguments: ParsableArguments {
    @Option(help: "Records in each job.")
    var records = 5_000

    @Option(help: "Begin with the record of this number.")
    var first = 0

    @Option(
        help: ArgumentHelp(
            """
            In which shares records are new, changed, unchanged or invalid: new:80,changed:10,unchanged:5,invalid:5. \
            The shares are exact.
            """, valueName: "shares"))
    var mix = "new:1"

    @Option(
        help: ArgumentHelp(
            "Records that are there before, from --first on; those that are not new are drawn from them in turn. By "
                + "default 10000 for a mix that needs some.", valueName: "count"))
    var existing: Int?

    @Flag(
        inversion: .prefixedNo,
        help: "Send the existing records before anything is measured. By default, unless --existing is given.")
    var preload: Bool?

    @Option(help: "What becomes of a job with an invalid record: fail, or skip the record.")
    var onInvalid: JobMessage.OnInvalid = .fail

    @Flag(inversion: .prefixedNo, help: "Each job has an id, so that it is applied exactly once.")
    var ids = true

    @Flag(help: "Ask for `accepted`, too, and measure when it comes.")
    var accepted = false

    private static let defaultExisting = 10_000
    /// The number of jobs that send the existing records.
    private static let recordsOfPreload = 1_000

    mutating func validate() throws {
        try [
            NumberOption("--records", records, in: 1...1_000_000), NumberOption("--first", first, in: 0...1 << 52),
            NumberOption("--existing", existing ?? 0, in: 0...100_000_000),
        ].check()
        do throws(LoadError) {
            let mix = try RecordMix(parsing: mix)
            if mix.needsExisting, existing == 0 {
                throw LoadError(.usage, "--mix has records of what must be there before, but --existing is 0.")
            }
        } catch {
            throw ValidationError(error.message)
        }
    }

    /// The jobs that bring what is there before, and those that are measured.
    func jobs(_ record: RecordArguments) throws(CommandFailure) -> (preload: JobOptions?, jobs: JobOptions) {
        let mix = try reporting { () throws(LoadError) in try RecordMix(parsing: self.mix) }
        var jobs = JobOptions(record.options, mix)
        jobs.recordsOfJob = records
        jobs.first = first
        jobs.onInvalid = onInvalid
        jobs.hasIDs = ids
        jobs.wantsAccepted = accepted
        guard mix.needsExisting else { return (nil, jobs) }
        jobs.existing = existing ?? Self.defaultExisting
        guard preload ?? (existing == nil) else { return (nil, jobs) }
        var before = JobOptions(record.options)
        before.recordsOfJob = min(Self.recordsOfPreload, jobs.existing)
        before.first = first
        return (before, jobs)
    }

    func settings(_ record: RecordArguments) -> [(name: String, value: String)] {
        [("records a job", "\(records)")] + record.settings + [("mix", mix), ("ids", ids ? "yes" : "no")]
    }
}

extension JobMessage.OnInvalid: ExpressibleByArgument {}
