import BrokerJSON

/// The content of a run's jobs.
struct JobOptions: Sendable {
    var records: RecordOptions
    var mix: RecordMix
    var recordsOfJob = 5_000
    /// The number of the first record.
    var first = 0
    /// Records that are there before: those with the numbers from `first` on. What is not new is drawn from them in turn.
    var existing = 0
    var wantsAccepted = false
    /// Begins the ids of the run's jobs, and of no other run's.
    var run: String

    init(_ records: RecordOptions, _ mix: RecordMix = .allNew) {
        self.records = records
        self.mix = mix
        run = String(UInt64.random(in: 1 << 60 ... .max), radix: 36)
    }

    /// The prefix of the number in a job's id.
    var idPrefix: String { "\(run)-" }
}

/// Makes the jobs of a run, one after the other.
struct JobSource: Sendable {
    private let options: JobOptions
    private var generator: GeneratedRecords
    private var kinds: MixOrder
    private var job = 0
    /// New records made so far.
    private var made = 0
    /// Records drawn so far from those that are there before.
    private var drawn = 0
    /// The last values of these records, where some are changed.
    private var versions: [Int32] = []

    init(_ options: JobOptions) {
        self.options = options
        generator = GeneratedRecords(options.records)
        kinds = MixOrder(options.mix, seed: options.records.seed)
        if options.mix.shares[.changed] != nil { versions = [Int32](repeating: 0, count: options.existing) }
    }

    /// The message of the next job.
    mutating func next() -> [UInt8] {
        defer { job += 1 }
        return message(nextRecords())
    }

    /// The records of the next job as a JSON array.
    mutating func nextRecords() -> [UInt8] {
        var records: [UInt8] = []
        records.reserveCapacity(min(options.recordsOfJob, 10_000) * 240 + 2)
        records.append(UInt8(ascii: "["))
        for place in 0..<options.recordsOfJob {
            if place > 0 { records.append(UInt8(ascii: ",")) }
            writeRecord(to: &records)
        }
        records.append(UInt8(ascii: "]"))
        return records
    }

    private mutating func writeRecord(to bytes: inout [UInt8]) {
        let kind = kinds.next()
        if kind == .new {
            generator.write(options.first + options.existing + made, to: &bytes)
            made += 1
        } else {
            let place = drawn % max(1, options.existing)
            drawn += 1
            if kind == .changed { versions[place] &+= 1 }
            let version = versions.isEmpty ? 0 : Int(versions[place])
            generator.write(options.first + place, version: version, to: &bytes)
        }
    }

    private func message(_ records: [UInt8]) -> [UInt8] {
        var writer = JSONWriter(capacity: records.count + 320)
        writer.object { writer in
            writer.member("id", options.idPrefix + String(job))
            if options.wantsAccepted {
                writer.member("notify", raw: #"["accepted","completed"]"#.utf8)
            }
            writer.member("entity", generator.layout.entity)
            writer.member("json", raw: records)
        }
        return writer.bytes
    }
}

/// The effect of a record on the store.
enum RecordKind: String, CaseIterable, Sendable {
    /// With a new identity.
    case new
    /// With an existing identity and other values.
    case changed
    /// Just as it is there.
    case unchanged
}

/// In which shares the kinds of records come.
///
/// The shares are exact: they hold for each ``period`` of records from the first on, in an order of the seed's.
struct RecordMix: Sendable, Equatable {
    /// No larger: a block of so many is shuffled at once.
    static let largestPeriod = 10_000

    /// In lowest terms; kinds without a share are omitted.
    let shares: [RecordKind: Int]

    static let allNew = RecordMix([.new: 1])

    init(_ shares: [RecordKind: Int]) {
        let divisor = shares.values.reduce(0, Self.greatestCommonDivisor)
        self.shares = shares.filter { $0.value > 0 }.mapValues { $0 / max(1, divisor) }
    }

    /// Reads `new:80,changed:10,unchanged:10`; nil for other texts, and for shares that add up to too much.
    init?(_ text: String) {
        var shares: [RecordKind: Int] = [:]
        for part in text.split(separator: ",", omittingEmptySubsequences: false) {
            let pair = part.split(separator: ":", omittingEmptySubsequences: false).map(String.init)
            guard pair.count == 2, let kind = RecordKind(rawValue: pair[0]), let share = Int(pair[1]), share >= 0,
                shares.updateValue(share, forKey: kind) == nil
            else { return nil }
        }
        self.init(shares)
        guard (1...Self.largestPeriod).contains(period) else { return nil }
    }

    /// Records after which the shares are exact again.
    var period: Int { shares.values.reduce(0) { $0.addingReportingOverflow($1).overflow ? .max : $0 + $1 } }

    /// Some records are of what must be there before.
    var needsExisting: Bool { shares[.changed] != nil || shares[.unchanged] != nil }

    private static func greatestCommonDivisor(_ a: Int, _ b: Int) -> Int {
        b == 0 ? a : greatestCommonDivisor(b, a % b)
    }
}

/// The kinds of a mix, one after the other.
struct MixOrder: Sendable {
    private var block: [RecordKind]
    private var random: LoadRandom
    private var place: Int

    init(_ mix: RecordMix, seed: UInt64) {
        block = RecordKind.allCases.flatMap { [RecordKind](repeating: $0, count: mix.shares[$0] ?? 0) }
        random = LoadRandom(seed: seed)
        place = block.count
    }

    mutating func next() -> RecordKind {
        if place == block.count {
            if block.count > 1 { block.shuffle(using: &random) }
            place = 0
        }
        place += 1
        return block[place - 1]
    }
}
