import BrokerCommandLine
import BrokerInput
import BrokerJSON
import BrokerModel
import BrokerModelSources
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

    /// The choices of a submission.
    struct Request {
        let store: String
        let entity: String
        /// By entity, the key paths that `--identity` names.
        let identities: [String: [String]]
        /// By entity, the key paths that `--ignore` names.
        let ignored: [String: [String]]
        /// Whether the model is extended; nil extends one that was inferred and not edited.
        let evolves: Bool?
    }

    /// Uses the model that the store has or that lies beside it, or infers one, and says so.
    ///
    /// - Parameter model: what the store has or lies beside it.
    init(_ request: Request, model: LocalModel?, _ sources: [RecordSource]) async throws {
        guard let model else {
            let samples = try await SampleRecords(of: sources, entity: request.entity, limits: .samples)
            samples.reportRoot()
            let count = samples.inference.recordCount
            guard count > 0 else {
                throw CommandFailure(
                    .failed,
                    "There is no model, and no record to infer one from. Give --model, or an input with records.")
            }
            let inferred = try samples.model(identities: request.identities, ignored: request.ignored)
            try Self.check(request, inferred)
            (root, mapping) = (samples.root, inferred.mapping)
            self.model = .inferred(
                try Inference(inferred, from: samples, file: LocalModel.file(besideStore: request.store)))
            return
        }
        let (document, plan) = try model.documentAndPlan()

        let isUnedited = InferredMark.isUnedited(plan.model)
        let evolves = request.evolves ?? isUnedited
        let mapping = InferredMark.keyMapping(of: request.entity, in: plan.model)
        let samples = try await SampleRecords(
            of: sources, entity: request.entity, extending: plan.model, limits: evolves ? .samples : .first)
        samples.reportRoot()
        (root, self.mapping) = (samples.root, mapping)
        guard evolves, samples.inference.recordCount > 0 else {
            self.model = model
            model.report()
            return
        }
        try Self.check(request, against: plan.model)
        let inferred = try samples.model(identities: request.identities, ignored: request.ignored)
        try Self.check(request, inferred)
        let changes = isUnedited ? inferred.extension : inferred.extension.addingOnly()
        guard !changes.isEmpty else {
            self.model = model
            model.report()
            return
        }
        let inference = { (changes: ModelExtension) in
            try Inference(document, changes, identities: inferred.identities, of: model, isMarked: isUnedited)
        }
        var extended = try inference(changes)
        // Whole numbers of more digits than a double has become decimals.
        if changes.hasDoubles,
            let refused = try? Store.changes(path: request.store, plan: extended.plan, removal: .refuse)
                .filter({ $0.verdict == .refused }), !refused.isEmpty
        {
            extended = try inference(changes.withDecimals(for: Set(refused.map(\.subject))))
        }
        self.model = .inferred(extended)
    }

    /// Options do not change what the model has.
    private static func check(_ request: Request, against model: Model) throws(CommandFailure) {
        for entity in model.entities {
            let names = entity.identity.map { entity.attributes[$0] }.filter { $0.holderValue == nil }
            if let keys = request.identities[entity.name], !names.isEmpty,
                !keys.elementsEqual(
                    names,
                    by: { key, attribute in attribute.keyPaths.contains(key.split(separator: ".").map(String.init)) })
            {
                throw CommandFailure(
                    .failed,
                    "--identity: \(entity.name) is identified by \(names.map(\.name).joined(separator: ", ")) in the store, "
                        + "which cannot change; load the records into another store.")
            }
            let known =
                entity.attributeIndices.flatMap { entity.attributes[$0].keyPaths }
                + entity.relationshipIndices.flatMap { entity.relationships[$0].keyPaths }
            for key in request.ignored[entity.name] ?? []
            where known.contains(key.split(separator: ".").map(String.init)) {
                throw CommandFailure(
                    .failed,
                    "--ignore: \(entity.name) has \(key) in the store. Take it out of the model and add it to its \"ignore\" there."
                )
            }
        }
    }

    private static func check(_ request: Request, _ inferred: InferredText) throws(CommandFailure) {
        for (entity, keys) in request.identities.sorted(by: { $0.key < $1.key }) {
            guard let known = inferred.keys[entity] else {
                throw CommandFailure(
                    .failed,
                    "--identity: there is no entity \(entity) in the input; there are "
                        + "\(inferred.keys.keys.sorted().joined(separator: ", ")).")
            }
            let candidates = known.filter { $0.nonidentityReason == nil }.map(\.path).sorted()
            for key in keys where !candidates.contains(key) {
                let found = known.first { $0.path == key }
                let inner =
                    known.contains { $0.path.hasPrefix(key + ".") } ? "it is an object, whose keys have paths" : nil
                throw CommandFailure(
                    .failed,
                    "--identity: \(key) cannot identify objects of \(entity): "
                        + "\(inner ?? found?.nonidentityReason ?? "there is no such key"). "
                        + (candidates.isEmpty
                            ? "No key can." : "There are \(candidates.prefix(20).joined(separator: ", "))."))
            }
        }
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

    init(_ inferred: InferredText, from samples: SampleRecords, file: String) throws {
        let document = try InferredMark.marked(
            ModelDocument(parsing: JSONText(copying: Array(inferred.text.utf8))))
        let count = samples.inference.recordCount
        let records = "\(samples.isComplete ? "" : "the first ")\(count) record\(count == 1 ? "" : "s")"
        reason = "no --model was given, so one was inferred from \(records)"
        identities = inferred.identities
        self.document = document
        plan = try StagingPlan(ModelReader.read(document))
        (self.file, replaces) = (file, false)
    }

    init(
        _ document: ModelDocument, _ changes: ModelExtension, identities: [(entity: String, text: String)],
        of model: LocalModel, isMarked: Bool
    ) throws {
        var extended = try changes.applied(to: document)
        if isMarked { extended = try InferredMark.marked(extended) }
        self.document = extended
        plan = try StagingPlan(ModelReader.read(extended))
        if case .files(let files) = model { file = files.first } else { file = nil }
        replaces = true
        reason = "the input has more than the model, which was extended (--no-evolve leaves it as it is)"
        self.identities = identities
    }

    /// Says what was inferred, and writes nothing.
    func report() {
        Program.report("broker: \(reason).")
        for (entity, text) in identities { Program.report("broker: \(entity): \(text).") }
    }

    /// Writes the model beside its store, and says so. The store is open then, and holds the model, too.
    func write() {
        var text = "broker: \(reason)"
        if let file {
            do {
                // Never over a file that another program has made meanwhile.
                try Data((document.root.indentedJSON + "\n").utf8)
                    .write(to: URL(filePath: file), options: replaces ? .atomic : .withoutOverwriting)
                text +=
                    replaces
                    ? ", also in \(file)."
                    : " and written to \(file). Look at its guesses before much is stored; it is used from now on."
            } catch {
                text += ". It is in the store; it cannot be written to \(file): \(error.localizedDescription)"
            }
        } else {
            text += "."
        }
        Program.report(text)
        for (entity, text) in identities { Program.report("broker: \(entity): \(text).") }
    }
}
