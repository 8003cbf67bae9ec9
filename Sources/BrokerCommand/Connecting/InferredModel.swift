import BrokerCommandLine
import BrokerInput
import BrokerJSON
import BrokerModel
import BrokerModelSources
import BrokerSchema
import BrokerStaging
import BrokerStore
import Foundation

/// The result of sampling an input for a store without a given model: the position of the records, and the store's
/// model, which is inferred if the store has none, and extended if it was inferred.
struct InferredModel {
    /// The position of the records in each value of the input, if it was found.
    let root: RecordRoot?
    let model: LocalModel
    /// The mapping that reads the records, where their entity alone does not.
    let mapping: String?
    /// Set where the records' identity is a guess.
    private(set) var guessed: GuessedIdentity?
    /// The store had no model.
    private(set) var isFirst = false

    /// Uses the model that the store has or that lies beside it, or infers one, and says so. Nil unless the records are of one
    /// entity, for a store without `--model`.
    ///
    /// - Parameters:
    ///   - evolves: whether the model is extended; nil extends one that evolves.
    ///   - mayReject: records without an identity are rejected, and the others are loaded.
    init?(
        of sources: [RecordSource], entity: String?, _ connection: ConnectionOptions, _ options: InferenceOptions,
        evolves: Bool?, mayReject: Bool
    ) async throws {
        guard let entity, let store = connection.store, connection.mayInfer else { return nil }
        let model = try connection.storedModel()
        let (identities, ignored) = (options.identities(or: entity), options.ignored(or: entity))
        // Nothing was sent yet, and a large input takes seconds.
        let interruption = Interruption { Program.report("broker: interrupted; nothing was sent") }
        defer { withExtendedLifetime(interruption) {} }
        guard let model else {
            let samples = try await SampleRecords(of: sources, entity: entity, givenKeys: Self.keys(identities[entity]))
            samples.reportRoot()
            guard samples.inference.recordCount > 0 else {
                throw CommandFailure(
                    "There is no model, and no record to infer one from. Give --model, or an input with records.")
            }
            let inferred = try samples.model(identities: identities, ignored: ignored, options.nameStyle)
            try Self.check(identities, inferred, of: entity)
            (root, mapping, isFirst) = (samples.root, inferred.mapping, true)
            let inference = try Inference(inferred, from: samples, file: LocalModel.file(besideStore: store))
            self.model = .inferred(inference)
            guessed = GuessedIdentity(
                of: entity, in: inference.plan.model, identities: identities, store: store, mayReject: mayReject)
            return
        }
        let plan = try model.documentAndPlan().1
        let mayExtend = evolves ?? plan.model.evolves
        if mayExtend, !options.new { try Self.check(entity, against: plan.model, sources) }
        let guess = GuessedIdentity(
            of: entity, in: plan.model, identities: identities, store: store, mayReject: mayReject)
        let known = plan.model.index(ofEntity: entity).map { plan.model.entities[$0].keyPaths } ?? []
        let sources = sources.map { $0.withKeys(known) }
        let samples = try await SampleRecords(
            of: sources, entity: entity, extending: plan.model, isFirstOnly: !mayExtend && guess == nil,
            givenKeys: (guess?.keys ?? []).union(Self.keys(identities[entity])), guessed: guess)
        samples.reportRoot()
        guessed = samples.guessed
        try guessed?.check(samples.inference)
        (root, mapping) = (samples.root, plan.model.keyMapping(of: entity))
        var (changes, described) = (ModelExtension(), [(entity: String, text: String)]())
        if mayExtend, samples.inference.recordCount > 0 {
            try Self.check(identities, ignored, against: plan.model)
            let inferred = try samples.model(identities: identities, ignored: ignored, options.nameStyle)
            try Self.check(identities, inferred, of: entity)
            for (name, count) in inferred.contradictions {
                try GuessedIdentity(
                    of: name, in: plan.model, identities: identities, store: store, mayReject: mayReject, root: entity)?
                    .check(count)
            }
            changes = plan.model.evolves ? inferred.extension : inferred.extension.addingOnly()
            if !options.widen { changes = changes.retainingTypes() }
            described = inferred.identities
        }
        if options.extra || mayExtend && plan.model.evolves { changes.addExtra(to: plan.model) }
        if changes.isEmpty { model.report() }
        self.model = changes.isEmpty ? model : try Self.extended(model, by: changes, described, store)
    }

    private static func extended(
        _ model: LocalModel, by changes: ModelExtension, _ identities: [(entity: String, text: String)], _ store: String
    ) throws -> LocalModel {
        let document = try model.documentAndPlan().0
        let first = try Inference(document, changes, identities: identities, of: model)
        // Whole numbers of more digits than a double has become decimals.
        let refused = changes.hasDoubles ? refused(by: store, first.plan) : []
        let exact = changes.withDecimals(for: Set(refused.map(\.subject)))
        return .inferred(refused.isEmpty ? first : try Inference(document, exact, identities: identities, of: model))
    }

    private static func refused(by store: String, _ plan: StagingPlan) -> [StoreChange] {
        (try? Store.changes(path: store, plan: plan, removal: .refuse))?.filter { $0.verdict == .refused } ?? []
    }

    /// The store's model with attributes for the keys that only `_extra` has; nil without such keys.
    private init?(promotingIn store: String, _ model: LocalModel, readsTexts: Bool) throws {
        let (document, plan) = try model.documentAndPlan()
        let changes = try ModelExtension(promotingIn: plan.model, readsTexts: readsTexts) {
            try Store.forEachExtra(path: store, $0)
        }
        guard !changes.isEmpty else { return nil }
        (root, mapping) = (nil, nil)
        self.model = .inferred(
            try Inference(document, changes, of: model, reason: "keys of _extra became attributes of the model"))
    }

    /// Makes attributes of the keys that only `_extra` has, at the end of a load, if the store's model evolves. A failure is
    /// reported, and loses nothing.
    static func promote(_ connection: ConnectionOptions, evolves: Bool?, readsTexts: Bool) async {
        do {
            guard let store = connection.store, let model = try connection.storedModel(),
                try evolves ?? model.plan().model.evolves,
                let promoted = try InferredModel(promotingIn: store, model, readsTexts: readsTexts)
            else { return }
            try await connection.connected("broker", inferred: promoted) { _ in }
        } catch {
            Program.report(
                "broker: warning: keys of _extra did not become attributes, and stay there: \(error)", .warning)
        }
    }

    /// A name that the model has nearly is probably another one's: it is not made an entity without a question.
    private static func check(_ entity: String, against model: Model, _ sources: [RecordSource]) throws {
        let names = model.entities.map(\.name)
        guard !names.contains(entity), let nearest = NearMiss.nearest(to: entity, among: names) else { return }
        let text = "The store has no entity \(entity), but \(nearest)."
        let mayAsk = Confirmation.isPossible && !sources.contains { $0.path == "-" }
        guard mayAsk, Confirmation.agrees(to: "\(text) Make a new entity \(entity)?") else {
            throw CommandFailure(
                .usage, mayAsk ? "nothing was stored" : "\(text) Give that name, or --new to make another entity.")
        }
    }

    /// Options do not change what the model has.
    private static func check(
        _ identities: [String: [String]], _ ignored: [String: [String]], against model: Model
    ) throws {
        for entity in model.entities {
            let names = entity.identity.map { entity.attributes[$0] }.filter {
                $0.holderValue == nil || $0.holderValue == .content
            }
            if let keys = identities[entity.name], keys == [GivenIdentity.content], names.isEmpty {
                throw CommandFailure(
                    "--identity content: \(entity.name) has no identity in the store, and its objects have no hash of their "
                        + "records; load the records into another store.")
            }
            if let keys = identities[entity.name], !names.isEmpty,
                !keys.elementsEqual(names, by: { Self.names($0, one: $1) })
            {
                throw CommandFailure(
                    "--identity: \(entity.name) is identified by \(names.map(\.name).joined(separator: ", ")) in the store, "
                        + "which cannot change; load the records into another store.")
            }
            for key in ignored[entity.name] ?? [] where entity.keyPaths.contains(where: Self.paths(key).contains) {
                throw CommandFailure(
                    "--ignore: \(entity.name) has \(key) in the store. Take it out of the model and add it to its \"ignore\" there."
                )
            }
        }
    }

    /// The key paths that a text may name: a key that is written so, and keys with dots between them.
    private static func paths(_ text: String) -> [[String]] { [[text], text.split(separator: ".").map(String.init)] }

    private static func names(_ key: String, one attribute: Attribute) -> Bool {
        attribute.holderValue == .content
            ? key == GivenIdentity.content : paths(key).contains { attribute.keyPaths.contains($0) }
    }

    /// The first keys of the paths that a person names.
    private static func keys(_ identity: [String]?) -> Set<String> {
        Set((identity ?? []).flatMap { paths($0).compactMap(\.first) })
    }

    private static func check(_ identities: [String: [String]], _ inferred: InferenceResult, of root: String) throws {
        for (entity, keys) in identities.sorted(by: { $0.key < $1.key }) {
            if keys == [GivenIdentity.none] { continue }
            if keys == [GivenIdentity.content] {
                guard entity != root else { continue }
                throw CommandFailure(
                    "--identity content is for the records of the input, \(root), and not for \(entity) in them.")
            }
            guard let known = inferred.keys[entity] else {
                throw CommandFailure(
                    "--identity: there is no entity \(entity) in the input; there are "
                        + "\(inferred.keys.keys.sorted().joined(separator: ", ")).")
            }
            let candidates = known.filter { $0.nonidentityReason == nil }.map(\.path).sorted()
            for key in keys where !candidates.contains(key) {
                let found = known.first { $0.path == key }
                let inner =
                    known.contains { $0.path.hasPrefix(key + ".") } ? "it is an object, whose keys have paths" : nil
                throw CommandFailure(
                    "--identity: \(key) cannot identify objects of \(entity): "
                        + "\(inner ?? found?.nonidentityReason ?? "there is no such key"). "
                        + (candidates.isEmpty
                            ? "No key can." : "There are \(candidates.prefix(20).joined(separator: ", "))."))
            }
        }
    }
}

extension Entity {
    fileprivate var keyPaths: [[String]] {
        attributeIndices.flatMap { attributes[$0].keyPaths }
            + relationshipIndices.flatMap { relationships[$0].keyPaths }
    }
}

/// A model that was inferred from sample records, or extended by them.
struct Inference {
    let plan: StagingPlan
    let document: ModelDocument
    private let reason: String
    /// By entity, what identifies its objects.
    private let identities: [(entity: String, text: String)]
    /// Nil when none is written.
    private let file: String?
    /// The file is there, and is as it was inferred.
    private let replaces: Bool

    init(_ inferred: InferenceResult, from samples: SampleRecords, file: String) throws {
        let records = Program.counted(samples.inference.recordCount, "record")
        reason = "no --model was given, so one was inferred from \(samples.isComplete ? "" : "the first ")\(records)"
        identities = inferred.identities
        document = inferred.document
        plan = try StagingPlan(ModelReader.read(document))
        (self.file, replaces) = (file, false)
    }

    /// - Parameter reason: why it was extended, as the beginning of a sentence.
    init(
        _ document: ModelDocument, _ changes: ModelExtension, identities: [(entity: String, text: String)] = [],
        of model: LocalModel,
        reason: String = "the input has more than the model, which was extended (--no-evolve leaves it as it is)"
    ) throws {
        let extended = changes.applied(to: document)
        self.document = extended
        plan = try StagingPlan(ModelReader.read(extended))
        if case .files(let files) = model { file = files.first } else { file = nil }
        replaces = true
        self.reason = reason
        self.identities = identities
    }

    /// Says what was inferred.
    func report(_ ending: String = ".") {
        Program.report("broker: \(reason)\(ending)")
        for (entity, text) in identities { Program.report("broker: \(entity): \(text).") }
    }

    /// Writes a model that was extended to its file, before a store has it: the file is never behind the store.
    ///
    /// - Throws: where the store would be refused, or the file cannot be written.
    func writeExtended(for store: String, _ removal: RemovalPolicy) throws {
        guard replaces, let file else { return }
        try Store.check(path: store, plan: plan, removal: removal)
        do {
            try Data((document.root.indentedJSON + "\n").utf8).write(to: URL(filePath: file), options: .atomic)
        } catch {
            throw CommandFailure(
                "The input has more than the model, and the extended model cannot be written to \(file): "
                    + "\(error.localizedDescription) Make it writable, or give --no-evolve; nothing was changed.")
        }
    }

    /// Writes a new model beside its store, which is open and holds it, too; and says what was inferred.
    func write() {
        guard let file else { return report() }
        guard !replaces else { return report(", also in \(file).") }
        do {
            // Never over a file that another program has made meanwhile.
            try Data((document.root.indentedJSON + "\n").utf8)
                .write(to: URL(filePath: file), options: .withoutOverwriting)
            report(" and written to \(file). Look at its guesses before much is stored; it is used from now on.")
        } catch {
            report(". It is in the store; it cannot be written to \(file): \(error.localizedDescription)")
        }
    }
}

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
    private let isFirstOnly: Bool
    private(set) var guessed: GuessedIdentity?
    private var bytes = 0

    /// Looked at to infer a model, in a second or so.
    private static let mostRecords = 2_000_000
    private static let mostBytes = 32 << 20

    /// So much of JSON is read to find its records; of a larger document the beginning shows them.
    private static let mostOfRoot = 8 << 20

    private struct Enough: Error {}

    /// Standard input can be read again after this. The first record is enough to find the position of the records.
    init(
        of sources: [RecordSource], entity: String, extending model: Model? = nil, isFirstOnly: Bool = false,
        givenKeys: Set<String> = [], guessed: GuessedIdentity? = nil
    ) async throws {
        self.guessed = guessed
        self.entity = entity
        self.model = model
        self.isFirstOnly = isFirstOnly
        inference = SampleInference(
            entity: entity, readsTexts: sources.contains(where: \.format.readsTexts), givenKeys: givenKeys)
        for source in sources {
            do {
                if source.isPipe { try await lookAhead(source) } else { try await look(at: source) }
            } catch is Enough {
                isComplete = false
                return
            } catch is InputFault where inference.recordCount > 0 {
                // The submission reports it, after the records before it.
                isComplete = false
                return
            } catch let fault as InputFault {
                let place = fault.place.map { ", \($0)" } ?? ""
                throw CommandFailure("\(source.name)\(place): \(fault.text)")
            }
        }
    }

    private mutating func look(at source: RecordSource) async throws {
        var line = ReadingLine(source.name, totalBytes: source.byteCount)
        defer { line.clear() }
        if source.root == nil, root == nil, inference.recordCount == 0 { root = try await foundRoot(in: source) }
        var source = source
        source.root = source.root ?? root
        // The next records are parsed while those before them are observed.
        source.parses = true
        isMap = source.root?.isMap ?? false
        try await source.forEachBatch { batch in
            if let document = batch.document {
                try document.withRoot { root in
                    for (record, value) in zip(batch.records, root.elements) { try observe(record, value) }
                }
            } else {
                for record in batch.records { try record.parsed().withRoot { try observe(record, $0) } }
            }
            line.update(bytes: batch.bytesRead, records: inference.recordCount)
        }
    }

    /// Looks at what a pipe has, and waits for a whole record if it has none.
    private mutating func lookAhead(_ source: RecordSource) async throws {
        var waits = false
        while true {
            let (beginning, isAll) = PipeInput.readAhead(
                source.path, Self.mostBytes, patience: source.patience ?? -1, waits: waits)
            let isLast = isAll || beginning.count >= Self.mostBytes
            let copy = try UnnamedFile()
            defer { withExtendedLifetime(copy) {} }
            try beginning.withUnsafeBytes { try copy.append($0) }
            var part = source
            (part.path, part.title, part.patience) = (copy.path, source.name, nil)
            do {
                // Where it is cut there is a fault, after whole records.
                try await look(at: part)
            } catch let fault as InputFault where !isLast && fault.place?.offset ?? .max >= beginning.count {
                if inference.recordCount > 0 { throw fault }
            }
            guard !isLast, inference.recordCount == 0 else {
                isComplete = isAll
                return
            }
            waits = true
        }
    }

    private mutating func observe(_ record: InputRecord, _ value: JSONValue) throws {
        guard value.kind != .array else {
            throw CommandFailure(
                "The records from line \(record.place.line) on are arrays in an array, and objects are wanted: jq "
                    + "'.[][]' makes records of their elements, and --root /1 reads those of the second array.")
        }
        bytes += record.json.count
        inference.observe(value, isMap: isMap)
        guessed?.note(value)
        if isFirstOnly || inference.recordCount >= Self.mostRecords || bytes >= Self.mostBytes { throw Enough() }
    }

    // MARK: - The position of the records

    private mutating func foundRoot(in source: RecordSource) async throws -> RecordRoot? {
        guard [.json, .ndjson, .xml].contains(source.format), !InputBeginning.isArray(file: source.path) else {
            return nil
        }
        let first: [InputRecord]
        var isOnly = true
        if source.format == .xml {
            // An XML document is one record here.
            first = try await source.stream.next()?.records ?? []
        } else {
            let sample = try InputBeginning.sample(
                file: source.path, encoding: source.reading.encoding, most: Self.mostOfRoot)
            (first, isOnly) = (sample.values, sample.isOnly)
        }
        guard let record = first.first else { return nil }
        let document = try record.parsed()
        let second = first.count > 1 ? try? first[1].parsed() : nil
        defer { withExtendedLifetime((document, second)) {} }
        guard
            let found = SampleRoot(
                in: document.root, isOnly: isOnly, second: second?.root, isXML: source.format == .xml, entity: entity,
                model: model)
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
            "broker: the records are taken from \(root.text) of the input, and nothing beside them is stored\(unread); --root "
                + "selects others.")
    }

    /// The model, and what identifies its objects.
    func model(
        identities: [String: [String]], ignored: [String: [String]], _ style: NameStyle?
    ) throws -> InferenceResult {
        guard !inference.isTooWide else {
            let (count, most) = (inference.recordCount, SampleInference.mostRecordKeys)
            throw CommandFailure(
                count == 1
                    ? "No model can be inferred: a record has more than \(most) keys. If it holds records by their keys, "
                        + "--root '*' reads them; else give --model with a mapping that has \"collection\": true, and --mapping."
                    : "No model can be inferred: the first \(count) records have more than \(most) different keys together, "
                        + "and a table has no more columns. If the keys are values, jq 'to_entries' makes them values; else "
                        + "give --model, with the keys that count.")
        }
        let inferred = inference.model(identities: identities, ignored: ignored, extending: model, style)
        guard inferred.hasValues || model != nil else {
            throw CommandFailure(
                "No model can be inferred: the records have no keys, all of them are ignored, or the only record is a "
                    + "dictionary. Make records of its plain values: jq 'to_entries' does.")
        }
        return inferred
    }
}
