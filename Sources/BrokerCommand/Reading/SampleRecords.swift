import BrokerCommandLine
import BrokerInput
import BrokerJSON
import BrokerModel
import BrokerModelSources

/// Records of an input, looked at to infer a model from them.
struct SampleRecords {
    /// The position of the records in each value, if it was not given and can be found.
    private(set) var root: RecordRoot?
    /// Other lists of objects in the input.
    private var others: [String] = []
    /// Each record is an object with one key, which identifies it.
    private var isMap = false
    /// The model that the samples extend; nil when there is none.
    private let model: Model?
    /// The samples are the whole input.
    private(set) var isComplete = true
    private(set) var inference: SampleInference
    private let entity: String
    private let limits: Limits
    private var bytes = 0

    /// The amount of the input that is looked at.
    struct Limits {
        let records: Int
        let bytes: Int

        /// To infer a model: a few seconds.
        static let samples = Limits(records: 2_000_000, bytes: 256 << 20)
        /// To find the position of the records.
        static let first = Limits(records: 1, bytes: 1)
    }

    /// So much of standard input is read before anything is done with it.
    private static let mostInput = 64 << 20

    private struct Enough: Error {}

    /// Standard input can be read again after this.
    ///
    /// - Parameter model: the model that the samples extend; nil when there is none.
    init(of sources: [RecordSource], entity: String, extending model: Model? = nil, limits: Limits) async throws {
        self.entity = entity
        self.model = model
        self.limits = limits
        inference = SampleInference(
            entity: entity, readsTexts: sources.contains(where: \.format.readsTexts))
        for source in sources {
            do {
                if source.path == "-" { try await lookAhead(source) } else { try await look(at: source) }
            } catch is Enough {
                isComplete = false
                return
            } catch is InputFault where inference.recordCount > 0 {
                // The submission reports it, after the records before it.
                isComplete = false
                return
            } catch let fault as InputFault {
                let place = fault.place.map { ", \($0)" } ?? ""
                throw CommandFailure(.failed, "\(source.name)\(place): \(fault.text)")
            }
        }
    }

    private mutating func look(at source: RecordSource) async throws {
        if source.root == nil, root == nil, inference.recordCount == 0 { root = try await foundRoot(in: source) }
        var source = source
        source.root = source.root ?? root
        isMap = source.root?.isMap ?? false
        try await source.forEach { record, _ in try observe(record) }
    }

    private mutating func lookAhead(_ source: RecordSource) async throws {
        let (beginning, isAll) = StandardInput.readAhead(Self.mostInput)
        if !isAll { isComplete = false }
        let copy = try UnnamedFile()
        defer { withExtendedLifetime(copy) {} }
        try beginning.withUnsafeBytes { try copy.append($0) }
        // Where it is cut there is a fault, after whole records.
        try await look(at: RecordSource(path: copy.path, format: source.format, root: source.root, csv: source.csv))
    }

    private mutating func observe(_ record: InputRecord) throws {
        let document = try record.parsed()
        defer { withExtendedLifetime(document) {} }
        guard document.root.kind != .array else {
            throw CommandFailure(
                .failed,
                "The records from line \(record.place.line) on are arrays in an array, and objects are wanted: jq "
                    + "'.[][]' makes records of their elements, and --root /1 reads those of the second array.")
        }
        bytes += record.json.count
        inference.observe(document.root, isMap: isMap)
        if inference.recordCount >= limits.records || bytes >= limits.bytes { throw Enough() }
    }

    // MARK: - The position of the records

    private mutating func foundRoot(in source: RecordSource) async throws -> RecordRoot? {
        guard [.json, .ndjson, .xml].contains(source.format), !InputBeginning.isArray(file: source.path) else {
            return nil
        }
        var first: [InputRecord] = []
        do {
            try await source.forEach { record, _ in
                first.append(record)
                if first.count > 1 { throw Enough() }
            }
        } catch is Enough {
        } catch is InputFault where !first.isEmpty {
            // It is reported when the records are read.
        }
        guard let record = first.first else { return nil }
        let document = try record.parsed()
        defer { withExtendedLifetime(document) {} }
        guard
            let found = SampleRoot(
                in: document.root, isOnly: first.count == 1, entity: entity, model: model)
        else { return nil }
        others = found.others
        guard source.format == .xml else { return RecordRoot(found.text) }
        guard !found.isMap, let name = XMLDocumentName.find(inFile: source.path) else { return nil }
        return RecordRoot(found.text.hasPrefix("/") ? "/\(name.asPointerToken)\(found.text)" : "\(name).\(found.text)")
    }

    func reportRoot() {
        guard let root else { return }
        let unread = others.isEmpty ? "" : " (not read: \(others.prefix(10).joined(separator: ", ")))"
        Program.report(
            "broker: the records are taken from \(root.text) of the input\(unread); --root selects others.")
    }

    /// The model, and what identifies its objects.
    ///
    /// - Parameters:
    ///   - identities: by entity, the key paths that `--identity` names.
    ///   - ignored: by entity, the key paths that `--ignore` names.
    /// - Throws: when a model could not name all that the records hold.
    func model(
        identities: [String: [String]], ignored: [String: [String]]
    ) throws -> InferredText {
        guard !inference.isTooWide else {
            let (count, most) = (inference.recordCount, SampleInference.mostRecordKeys)
            throw CommandFailure(
                .failed,
                count == 1
                    ? "No model can be inferred: a record has more than \(most) keys. If it holds records by their keys, "
                        + "--root '*' reads them; else give --model with a mapping that has \"collection\": true, and --mapping."
                    : "No model can be inferred: the first \(count) records have more than \(most) different keys together, "
                        + "and a table has no more columns. If the keys are values, jq 'to_entries' makes them values; else "
                        + "give --model, with the keys that count.")
        }
        let inferred = inference.model(
            isComplete: isComplete, identities: identities, ignored: ignored, extending: model)
        guard inferred.hasValues || model != nil else {
            throw CommandFailure(
                .failed,
                "No model can be inferred: no key of the records can be named by a path, because of dots, control "
                    + "characters or their length. If they are a dictionary of plain values, make records of it: jq "
                    + "'to_entries' does.")
        }
        return inferred
    }
}
