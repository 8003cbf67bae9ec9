import ArgumentParser
import BrokerCommandLine
import BrokerJSON
import BrokerLoad
import BrokerModel
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

    @Option(
        help: ArgumentHelp("A model of your own, for --samples. May be repeated.", valueName: "file"),
        completion: .file())
    var model: [String] = []

    @Option(
        help: ArgumentHelp(
            "Records of your own, which are sent in turn: an array, or a record a line.", valueName: "file"),
        completion: .file())
    var samples: String?

    @Option(help: ArgumentHelp("The entity of the samples.", valueName: "name"))
    var entity: String?

    @Flag(help: "Give each sample an identity of its own, by the model's identity attribute.")
    var freshIdentities = false

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
            if samples != nil, mix != .allNew {
                throw LoadError(.usage, "--mix is for generated records, not samples.")
            }
            if mix.needsExisting, existing == 0 {
                throw LoadError(.usage, "--mix has records of what must be there before, but --existing is 0.")
            }
        } catch {
            throw ValidationError(error.message)
        }
        guard (samples == nil) == (entity == nil) else {
            throw ValidationError("--samples and --entity belong together; give both.")
        }
        guard samples != nil || (model.isEmpty && !freshIdentities) else {
            throw ValidationError("--model and --fresh-identities are for --samples; give those, too.")
        }
        guard !freshIdentities || !model.isEmpty else {
            throw ValidationError("--fresh-identities needs the --model, which says what the identity is.")
        }
    }

    /// The jobs that bring what is there before, and those that are measured.
    func jobs(_ record: RecordArguments) throws(CommandFailure) -> (preload: JobOptions?, jobs: JobOptions) {
        var jobs = JobOptions(try recordsOfJobs(record))
        jobs.recordsOfJob = records
        jobs.first = first
        jobs.onInvalid = onInvalid
        jobs.hasIDs = ids
        jobs.wantsAccepted = accepted
        guard case .generated(let options, let mix) = jobs.records, mix.needsExisting else { return (nil, jobs) }
        jobs.existing = existing ?? Self.defaultExisting
        guard preload ?? (existing == nil) else { return (nil, jobs) }
        var before = JobOptions(.generated(options, .allNew))
        before.recordsOfJob = min(Self.recordsOfPreload, jobs.existing)
        before.first = first
        return (before, jobs)
    }

    private func recordsOfJobs(_ record: RecordArguments) throws(CommandFailure) -> JobOptions.Records {
        guard let samples, let entity else {
            return .generated(record.options, try reporting { () throws(LoadError) in try RecordMix(parsing: mix) })
        }
        let identity = freshIdentities ? try identity(of: entity) : nil
        let text = try JSONText.file(samples)
        return .samples(
            try reporting { () throws(LoadError) in try SampleRecords(text, identity: identity, seed: record.seed) },
            entity: entity)
    }

    private func identity(of entity: String) throws(CommandFailure) -> SampleRecords.Identity {
        let model = try ModelFile(model).planOrComplain().model
        guard let found = model.entities.first(where: { $0.name == entity }) else {
            let ending = NearMiss.ending(entity, among: model.entities.map(\.name))
            throw CommandFailure(.usage, "The model has no entity \(entity)\(ending) Name one of it with --entity.")
        }
        guard let attribute = found.singleIdentity, let path = attribute.keyPaths.first, path.count == 1 else {
            throw CommandFailure(
                .usage,
                "\(entity) has no identity of one attribute at the top of its records, so --fresh-identities can give "
                    + "it none; omit the flag.")
        }
        switch attribute.type {
        case .integer64, .integer32: return .init(key: path[0], kind: .integer)
        case .string: return .init(key: path[0], kind: .text)
        case .uuid: return .init(key: path[0], kind: .uuid)
        default:
            throw CommandFailure(
                .usage,
                "The identity of \(entity) is of the type \(attribute.type), and fresh ones can be made of integers, "
                    + "strings and UUIDs; omit --fresh-identities.")
        }
    }

    func settings(_ record: RecordArguments) -> [(name: String, value: String)] {
        var settings = [("records a job", "\(records)")]
        if let samples {
            settings += [("samples", samples), ("seed", "\(record.seed)")]
        } else {
            settings += record.settings + [("mix", mix)]
        }
        return settings + [("ids", ids ? "yes" : "no")]
    }
}

extension JobMessage.OnInvalid: ExpressibleByArgument {}
