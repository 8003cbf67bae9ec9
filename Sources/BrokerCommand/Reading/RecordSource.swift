import ArgumentParser
import BrokerClient
import BrokerCommandLine
import BrokerInput
import BrokerModelSources
import Glibc
import Synchronization

/// One file, or standard input, with records in it.
struct RecordSource: Sendable {
    /// `-` is standard input.
    var path: String
    var reading: InputReading
    /// More, unpacked, are a fault.
    var maximumBytes = Int.max
    /// Milliseconds after which an idle batch is handed over when no bytes come; nil waits for them.
    var patience: Int32?
    /// For messages, where the path says nothing.
    var title: String?
    /// The batches have documents.
    var parses = false

    /// Of a pipe the first bytes are waited for.
    var format: RecordFormat { reading.format(atPath: path) }

    var root: RecordRoot? {
        get { reading.root }
        set { reading.root = newValue }
    }

    /// The records are of one entity, so JSON may be a table of them.
    var readingTables: RecordSource {
        var source = self
        source.reading.readsTables = true
        return source
    }

    var isPipe: Bool { PipeInput.isPipe(path) }

    /// The source with the key paths of a model, which tell a header's names with dots from paths.
    func withKeys(_ paths: [[String]]) -> RecordSource {
        var source = self
        source.reading.csv.keys.formUnion(
            paths.filter { $0.count == 1 && ($0[0].contains(".") || $0[0].isEmpty) }.map { $0[0] })
        return source
    }

    /// The key paths of an entity of the broker's model.
    static func keys(of entity: String?, _ broker: RemoteBroker) async -> [[String]] {
        guard let entity, let found = (try? await broker.model())?.entities[entity] else { return [] }
        return (found.attributes.values.map(\.key) + found.relationships.values.map(\.key)).flatMap { $0?.paths ?? [] }
    }

    var stream: RecordStream {
        RecordStream(path: path, reading, maximumBytes: maximumBytes, patience: patience, parses: parses)
    }

    /// Hands each record to `take`.
    ///
    /// - Throws: an `InputFault`, once all records before it were handed over; or what `take` throws.
    func forEach(_ take: (InputRecord) async throws -> Void) async throws {
        try await forEachBatch { batch in
            for record in batch.records { try await take(record) }
        }
    }

    /// Hands the records to `take` as they are read, some at a time.
    ///
    /// - Throws: an `InputFault`, once all records before it were handed over; or what `take` throws.
    func forEachBatch(_ take: (RecordStream.Batch) async throws -> Void) async throws {
        let stream = stream
        while let batch = try await stream.next() {
            for note in batch.notes { InputNotes.report("\(name): \(note)") }
            try await take(batch)
        }
    }

    /// Bytes of the file; 0 when there is none, nil for what has no length.
    var byteCount: Int? {
        var status = stat()
        guard path != "-" else { return nil }
        guard stat(path, &status) == 0 else { return 0 }
        return status.st_mode & S_IFMT == S_IFREG ? Int(status.st_size) : nil
    }

    var name: String { title ?? (path == "-" ? "standard input" : path) }
}

/// Where the commands that read records read them.
struct InputOptions: ParsableArguments {
    @OptionGroup var format: RecordFormatOptions

    @Argument(help: "Files of records; none or - is standard input.", completion: .file())
    var files: [String] = []

    var readsStandardInput: Bool { files.isEmpty || files.contains("-") }

    /// In the order in which they are given.
    var sources: [RecordSource] { sources(root: format.root) }

    func sources(root: RecordRoot?) -> [RecordSource] {
        (files.isEmpty ? ["-"] : files).map {
            format.source($0, named: RecordFormat(fileName: $0), root: root)
        }
    }
}

struct RecordFormatOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            """
            The format of the input. Default: by its first bytes; where these do not show it, by the file's name (.json, \
            .ndjson, .jsonl, .csv, .tsv, .form, .xml, each also followed by .gz, .lz4 or .zst). Input compressed by gzip, \
            lz4 or zstd is always decompressed.
            """))
    var type: RecordFormat?

    @Option(
        help: ArgumentHelp(
            """
            Where the records are in each value of the input: keys with dots between them, or a JSON Pointer \
            (/data/items). In XML, names of elements, beginning with the document's; without it the document is one \
            record.
            """, valueName: "path"))
    var root: RecordRoot?

    @OptionGroup var text: TextOptions

    @Option(
        help: .value(
            "count", "With --on-invalid skip: the maximum number of lines that are skipped because they cannot be read."
        ))
    var maxUnreadable = 1_000

    mutating func validate() throws { try checkRange("--max-unreadable", maxUnreadable, in: 0...Int.max) }

    /// - Parameter name: the format that something else than the content shows.
    func source(_ path: String, named name: RecordFormat?, root: RecordRoot?) -> RecordSource {
        var reading = InputReading(format: type, root: root)
        (reading.namedFormat, reading.csv, reading.encoding) = (name, text.csv, text.encoding)
        return RecordSource(path: path, reading: reading)
    }
}

/// What the commands say about the reading of their input: each line once, though an input may be read twice.
enum InputNotes {
    private static let reported = Mutex<Set<String>>([])

    static func report(_ note: String) {
        guard reported.withLock({ $0.insert(note).inserted }) else { return }
        Program.report("broker: \(note)")
    }
}

/// How texts are read: their encoding, and the dialect of CSV.
struct TextOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            """
            The encoding of the input, by a name that iconv knows. Default: UTF-8, or UTF-16 by its byte order mark; CSV \
            that is no UTF-8 is Windows-1252. XML declares its own.
            """, valueName: "name"))
    var encoding: TextEncoding?

    @Option(
        help: ArgumentHelp(
            """
            The delimiter of CSV: one character, or tab. Default: the one of , ; | and tab that divides the header into \
            most fields, or that of a first line such as sep=;
            """, valueName: "character"))
    var delimiter: CSVDelimiter?

    @Option(help: .value("character", "The quote of CSV, or none."))
    var quote = CSVCharacter.quote

    @Option(
        help: .value(
            "character", "The escape of CSV, before a quote, a delimiter, a line end or itself: such as \\, or none."))
    var escape = CSVCharacter.none

    @Option(
        help: .value(
            "character",
            "Lines of CSV that begin with it are comments. Default: lines before the header that begin with #."))
    var comment: CSVCharacter?

    @Option(
        name: .customLong("null"), parsing: .singleValue,
        help: .value("text", "A field of CSV that is null, as an empty one is: such as NA or \\N. May be repeated."))
    var nulls: [String] = []

    @Option(
        help: ArgumentHelp(
            """
            The decimal mark of numbers in CSV, a comma or a point. The other one may divide their digits: with a comma, \
            1.234,50 is 1234.50.
            """, valueName: "character"))
    var decimal: CSVDecimal?

    @Option(help: .value("count", "Lines before the header of CSV that are skipped."))
    var skipLines = 0

    @Flag(
        help: """
            The first line of CSV is a record, whose fields are column_1, column_2, … Default: if it certainly is one.
            """)
    var noHeader = false

    @Flag(help: "The first line of CSV has the names of the fields, whatever it looks like.")
    var withHeader = false

    @Option(
        help: """
            What happens with a row of CSV that has fewer fields than the header: it is a fault (fail), or the missing \
            fields are null (fill).
            """)
    var ragged: RaggedRows = .fail

    mutating func validate() throws {
        try checkRange("--skip-lines", skipLines, in: 0...Int.max)
        if noHeader, withHeader { throw ValidationError("--no-header and --with-header contradict each other.") }
        if delimiter?.text == quote.text { throw ValidationError("--delimiter and --quote are the same character.") }
    }

    private var header: Bool? { noHeader ? false : withHeader ? true : nil }

    var csv: CSVOptions {
        var csv = CSVOptions(delimiter: delimiter, ragged: ragged)
        (csv.quote, csv.escape, csv.comment, csv.nulls) = (quote, escape, comment, nulls)
        (csv.decimal, csv.skipLines, csv.hasHeader) = (decimal, skipLines, header)
        return csv
    }

    /// All that decides how a text is read.
    var fingerprint: String {
        [
            encoding?.name, delimiter?.text, quote.text, escape.text, comment?.text, nulls.joined(separator: "\0"),
            decimal?.rawValue, "\(skipLines)", header.map { "\($0)" }, ragged.rawValue,
        ].map { $0 ?? "" }.joined(separator: "\0")
    }
}

extension RecordFormat: ExpressibleByArgument {}

extension RaggedRows: ExpressibleByArgument {}

extension NameStyle: ExpressibleByArgument {}

extension CSVDelimiter: ExpressibleByArgument {
    public init?(argument: String) { self.init(argument) }
}

extension CSVCharacter: ExpressibleByArgument {
    public init?(argument: String) { self.init(argument) }
    public var defaultValueDescription: String { text }
}

extension CSVDecimal: ExpressibleByArgument {}

extension TextEncoding: ExpressibleByArgument {
    public init?(argument: String) { self.init(argument) }
}

extension RecordRoot: ExpressibleByArgument {
    public init?(argument: String) { self.init(argument) }
}

/// A person's choices for entities that are inferred.
struct InferenceOptions: ParsableArguments {
    @Option(
        parsing: .singleValue,
        help: ArgumentHelp(
            """
            Where a model is inferred: the key that identifies the records, or ENTITY=KEY for those of another \
            entity. Several keys with commas between them identify together. "content" identifies a record by all that it \
            contains, and "none" adds each record. May be repeated.
            """, valueName: "key"))
    var identity: [String] = []

    @Option(
        parsing: .singleValue,
        help: ArgumentHelp(
            """
            Where a model is inferred or extended: a key of the records that is ignored from now on, or ENTITY=KEY for \
            those of another entity. May be repeated.
            """, valueName: "key"))
    var ignore: [String] = []

    @Flag(help: "Where a model is inferred: each record is a new object. The same as --identity none.")
    var append = false

    @Flag(
        help: """
            Store what the model does not name, and what its attributes cannot hold, in _extra: every entity of the model gets \
            "extra". An inferred model has it.
            """)
    var extra = false

    @Flag(
        help: """
            Where a model is extended: attributes that cannot hold the values of the input get wider types. Default: such \
            values are in _extra.
            """)
    var widen = false

    @Flag(help: "Where a model is extended: make the entity, although the store has one with nearly that name.")
    var new = false

    @Flag(
        inversion: .prefixedNo,
        help: """
            With --store, extend the store's model by what the input has more: new keys become attributes. Default: if the \
            model says "evolve", as an inferred one does.
            """)
    var evolve: Bool?

    @Option(
        help: """
            Where a model is inferred or extended: the names of the tables. snake is customer_order, and plural \
            customer_orders. Default: that of the entity, CustomerOrder.
            """)
    var nameStyle: NameStyle?

    var given: [String] {
        [
            ("--identity", !identity.isEmpty), ("--ignore", !ignore.isEmpty), ("--append", append), ("--extra", extra),
            ("--widen", widen), ("--new", new), ("--evolve", evolve == true), ("--name-style", nameStyle != nil),
        ].filter(\.1).map(\.0)
    }

    func check(mayInfer: Bool) throws {
        guard given.isEmpty || mayInfer else {
            throw ValidationError(
                "\(given.joined(separator: " and ")) is for a model that is inferred: give --store and --entity, and no --model."
            )
        }
    }

    mutating func validate() throws {
        if append, identity.contains(where: { !$0.contains("=") }) {
            throw ValidationError("--append and --identity contradict each other; give one of them.")
        }
        for (name, texts) in [("--identity", identity), ("--ignore", ignore)] {
            for text in texts {
                let keys = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
                guard !keys.contains(where: \.isEmpty), !keys.last!.split(separator: ",").isEmpty else {
                    throw ValidationError("\(name) is a key, or an entity, =, and a key: \(name) Country=alpha_3")
                }
            }
        }
    }

    /// By entity, the key paths of its identity; those without an entity are of that of the records.
    func identities(or entity: String) -> [String: [String]] {
        Self.byEntity(identity + (append ? [GivenIdentity.none] : []), or: entity)
    }

    /// By entity, the key paths that are ignored.
    func ignored(or entity: String) -> [String: [String]] { Self.byEntity(ignore, or: entity) }

    private static func byEntity(_ texts: [String], or entity: String) -> [String: [String]] {
        var byEntity: [String: [String]] = [:]
        for text in texts {
            let parts = text.split(separator: "=", maxSplits: 1).map(String.init)
            byEntity[parts.count == 2 ? parts[0] : entity, default: []] += parts.last!.split(separator: ",").map(
                String.init)
        }
        return byEntity
    }
}
