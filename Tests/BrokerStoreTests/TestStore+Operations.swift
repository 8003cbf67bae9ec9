import BrokerJSON
import BrokerModel
import BrokerStaging

@testable import BrokerSchema
@testable import BrokerStore

/// Jobs of several operations, written as a message has them.
extension TestStore {
    /// Applies one job and returns `Bee +1 ~2 =3 -4 !5` for each entity, without the numbers that are 0.
    ///
    /// - Parameter operations: the content of the message's array `operations`. As on the server, consecutive operations that
    ///   merge records are one step.
    @discardableResult
    func run(_ operations: String, _ policy: InvalidRecordPolicy = .fail) throws -> String {
        let outcome = try self.outcome(ofOperations: operations, policy)
        return outcome.changes.compactMap { entity, counts in
            let numbers = [counts.inserted, counts.updated, counts.unchanged, counts.deleted, counts.rejected]
            let texts = zip("+~=-!", numbers).filter { $1 != 0 }.map { "\($0)\($1)" }
            return texts.isEmpty ? nil : "\(entity) \(texts.joined(separator: " "))"
        }.joined(separator: ", ")
    }

    func outcome(ofOperations operations: String, _ policy: InvalidRecordPolicy = .fail) throws -> Outcome {
        switch try apply(job(operations: operations, policy)) {
        case .completed(let outcome): return outcome
        case .failed(let fault), .conflict(let fault, _): throw fault
        case .duplicate: throw Fault(.idConflict, "a job without an id cannot be a duplicate")
        }
    }

    /// Applies one job inside the transaction that the caller began; nil when the job failed.
    func outcomeInTransaction(
        ofOperations operations: String, _ policy: InvalidRecordPolicy = .fail, wantsKeys: Bool = true
    ) throws -> Outcome? {
        let job = try job(operations: operations, policy, wantsKeys: wantsKeys)
        return if case .completed(let outcome) = try store.apply(job) { outcome } else { nil }
    }

    func job(
        operations: String, _ policy: InvalidRecordPolicy = .fail, wantsKeys: Bool = true
    ) throws -> StoreJob {
        defer { nextSequence += 1 }
        let document = try JSONDocument(parsing: JSONText(copying: Array("[\(operations)]".utf8)))
        return StoreJob(
            id: "job-\(nextSequence)", contentHash: nil, sequence: nextSequence, policy: policy, wantsKeys: wantsKeys,
            work: try work(document, policy), now: 0)
    }

    private func work(_ document: JSONDocument, _ policy: InvalidRecordPolicy) throws -> StoreJob.Work {
        var plans: [StepPlan] = []
        for (number, operation) in document.root.elements.enumerated() {
            let (action, staging) = try step(operation)
            if let staging, var last = plans.popLast() {
                let isAdded = if case .merge = action { last.add(staging) } else { false }
                plans.append(last)
                if isAdded { continue }
            }
            plans.append(StepPlan(action, staging.map { [$0] } ?? [], at: "/\(number)"))
        }
        do throws(StagingRefusal) {
            var steps: [StagedStep] = []
            for step in plans {
                var parts: [StagedPart] = []
                if !step.operations.isEmpty {
                    for collection in JobCollection.collections(of: step.operations, in: document) {
                        parts.append(try collection.stage(plan, policy))
                    }
                }
                steps.append(step.staged(parts.isEmpty ? nil : StagedJobRows.unite(parts, plan)))
            }
            return .steps(steps)
        } catch {
            guard case .fault(let fault) = error else { preconditionFailure("no allowance was given") }
            return .refused(fault)
        }
    }

    private func step(_ operation: JSONValue) throws -> (StepAction, StagingOperation?) {
        let entity = plan.model.index(ofEntity: operation["entity"]!.string!)!
        func staging(_ key: String, _ action: StagingOperation.Action) -> StagingOperation {
            StagingOperation(entity: entity, json: operation[key]!, action)
        }
        func selection() throws -> StagedSelection {
            let predicate = try operation["where"]?.string.map { text in
                try plan.model.predicate(text, arguments: operation["arguments"], ofEntity: entity)
            }
            return StagedSelection(entity: entity, predicate)
        }
        switch operation["op"]?.string ?? "process" {
        case "process":
            return (.merge, staging("json", operation["object"].map { .change(object: $0) } ?? .process))
        case "relate":
            let name = operation["relationship"]!.string!
            let relationship = plan.model.entities[entity].relationships.firstIndex { $0.name == name }!
            return (.merge, staging("json", .relate(object: operation["object"]!, relationship: relationship)))
        case "sync":
            var sync = StagedSync(try selection(), part: nil)
            if let actions = operation["actions"].map({ $0.elements.compactMap(\.string) }) {
                sync.inserts = actions.contains("insert")
                sync.updates = actions.contains("update")
                sync.deletes = actions.contains("delete")
            }
            return (.sync(sync), StagingOperation(entity: entity, json: operation["json"]!))
        case "delete" where operation["objects"] != nil: return (.delete(entity: entity), staging("objects", .name))
        case "delete": return (.deleteMatching(try selection()), nil)
        default: throw Fault(.unsupportedMessage, "no such operation")
        }
    }
}

extension TestStore {
    /// Opens the store with another model, and returns the reason if that is refused.
    func refusal(_ model: String, _ removal: RemovalPolicy = .refuse) throws -> String? {
        do {
            try reopen(model, removal: removal)
            return nil
        } catch let error as StoreError {
            return error.message
        }
    }
}

extension StoreJob {
    /// The same job with other options.
    func with(
        isDryRun: Bool = false, _ limit: DeletionLimit? = nil, bookmark: Bookmark? = nil, mayDelete: Bool? = nil
    ) -> StoreJob {
        StoreJob(
            id: id, owner: owner, contentHash: contentHash, contentDigest: contentDigest,
            sequence: sequence, policy: policy, wantsKeys: wantsKeys, wantsObjects: wantsObjects,
            objectDates: objectDates, isDryRun: isDryRun, maximumDeletions: limit ?? maximumDeletions,
            bookmark: bookmark ?? self.bookmark, mayDelete: mayDelete ?? self.mayDelete, work: work, now: now,
            memory: memory)
    }
}
