import BrokerJSON
import BrokerModel
import BrokerStaging
import BrokerStore
import TestSupport

/// A job's JSON staged by a fixed model and merged into a store, with either policy: what failing lets pass, skipping does
/// not reject; memory is asked for; and the store takes what staging took, or says why in a fault of the data.
final class StagingTarget: FuzzTarget {
    /// Bytes of rows for one byte of text, at most: a `{}` in an array is a row with all its columns.
    private static let bytesForEachByte = 4_096
    private static let leastBytes = 1 << 20

    private let folder = TemporaryFolder()
    private let company: FuzzedCompany
    private let store: Store
    private var sequence: Int64 = 1

    init() throws {
        company = try FuzzedCompany()
        var options = StoreOptions()
        options.synchronous = .off
        store = try Store(path: folder.path("store.sqlite"), plan: company.plan, options: options)
        let document = try JSONDocument(parsing: JSONText(copying: Array(FuzzedCompany.records.utf8)))
        try store.begin()
        _ = try store.apply(company.job(.merge, try company.stage(document, .fail), sequence: 1, .fail))
        try store.commit()
    }

    func run(_ input: UnsafeRawBufferPointer) throws {
        guard let document = try? JSONDocument(parsing: JSONText(copying: input)), document.root.kind == .object else {
            return
        }
        let failing = try stage(document, .fail)
        let skipping = try stage(document, .skip)
        switch (failing, skipping) {
        case (.success(let failing), .success(let skipping)):
            try require(skipping.rejected.isEmpty, "what failing lets pass, skipping rejects")
            try require(Self.counts(failing) == Self.counts(skipping), "other rows are staged where nothing is wrong")
        case (.failure(let fault), .success(let skipping)):
            try require(!skipping.rejected.isEmpty, "what skipping lets pass, fails: \(fault)")
        case (.success, .failure(let fault)):
            throw FuzzFinding(description: "skipping fails where failing does not: \(fault)")
        case (.failure, .failure): return
        }
        if case .success(let rows) = failing { try merge(rows, .fail) }
        if case .success(let rows) = skipping { try merge(rows, .skip) }
    }

    private static func counts(_ rows: StagedRows) -> [Int] { rows.tables.map { $0?.rowCount ?? 0 } }

    private func stage(_ document: JSONDocument, _ policy: InvalidRecordPolicy) throws -> Result<StagedRows, Fault> {
        let allowance = CountingAllowance()
        do {
            let rows = try company.stage(document, policy, allowance)
            let most = Self.leastBytes + document.text.count * Self.bytesForEachByte
            try require(allowance.taken <= most, "\(allowance.taken) bytes for \(document.text.count) of text")
            for fault in rows.rejected { try requireSound(fault) }
            return .success(rows)
        } catch StagingRefusal.fault(let fault) {
            try requireSound(fault)
            return .failure(fault)
        } catch let fault as Fault {
            try requireSound(fault)
            return .failure(fault)
        }
    }

    /// Merges the rows, and undoes it.
    private func merge(_ rows: StagedRows, _ policy: InvalidRecordPolicy) throws {
        sequence += 1
        try store.begin()
        defer { store.rollback() }
        switch try store.apply(company.job(.merge, rows, sequence: sequence, policy)) {
        case .completed(let outcome):
            for (entity, counts) in outcome.changes {
                let all = [counts.inserted, counts.updated, counts.unchanged, counts.deleted, counts.rejected]
                try require(all.allSatisfy { $0 >= 0 }, "\(entity) counts \(all)")
            }
        case .failed(let fault): try requireSound(fault)
        case .duplicate, .conflict: throw FuzzFinding(description: "a job of a new id was applied before")
        }
    }
}

/// A fixed model that has something of everything, and a few objects of it.
struct FuzzedCompany {
    let plan: StagingPlan

    init() throws {
        plan = try StagingPlan(ModelReader.read(JSONText(copying: Array(Self.model.utf8))))
    }

    /// The model of the records below.
    static let employeeCount = 4
    /// The column of the Employees' identity.
    static let idColumn = 0

    private static let model = """
        {"keyStyle": "snakeCase", "entities": {
          "Employee": {"identity": "id", "attributes": {
              "id": "integer64",
              "name": {"type": "string", "transform": ["trim"], "maxLength": 20},
              "nick": {"type": "string", "key": ["nick", "names.nick"], "enum": ["a", "b", "ab"], "onInvalid": "null"},
              "email": {"type": "string", "pattern": ".+@.+", "unique": true, "onInvalid": "skip"},
              "salary": {"type": "decimal", "min": 0}, "rate": "double", "share": "float", "age": "integer16",
              "isBoss": "boolean", "hiredAt": {"type": "date", "format": "yyyy/MM/dd HH:mm:ss Z"},
              "leftAt": {"type": "date", "storage": "unix"}, "badge": "uuid", "photo": "binary", "page": "uri",
              "notes": "transformable"},
            "relationships": {
              "department": {"entity": "Department", "inverse": "employees"},
              "boss": {"entity": "Employee"}, "twin": {"entity": "Employee", "inverse": "twin"},
              "skills": {"entity": "Skill", "toMany": true, "inverse": "employees", "assignment": "replace"},
              "desk": {"entity": "Desk", "inverse": "employee"}}},
          "Department": {"identity": ["country", "code"], "root": "unit",
            "attributes": {"country": "string", "code": "integer32", "name": {"type": "string", "default": "?"}},
            "relationships": {"employees": {"entity": "Employee", "toMany": true, "ordered": true,
              "inverse": "department"}}},
          "Skill": {"identity": "name", "attributes": {"name": {"type": "string", "minLength": 1}},
            "relationships": {"employees": {"entity": "Employee", "toMany": true, "inverse": "skills"}}},
          "Desk": {"attributes": {"place": {"type": "string", "optional": false}},
            "relationships": {"employee": {"entity": "Employee", "inverse": "desk", "missing": "fail"}}},
          "Thing": {"identity": "key", "modified": "at", "tombstone": "gone == TRUE",
            "attributes": {"key": "string", "at": "date", "gone": "boolean"}},
          "Tool": {"parent": "Thing", "attributes": {"weight": "double"},
            "relationships": {"owner": {"entity": "Employee", "missing": "ignore"}}}},
        "mappings": {
          "staff": {"select": {"key": "kind", "cases": {"person": "person", "1": "tool"}, "otherwise": null}},
          "person": {"entity": "Employee", "attributes": {"full.nick": "nick"}, "nestingKey": "name", "collection": true},
          "tool": {"entity": "Tool"}},
        "routes": [{"path": "/staff/:age", "mapping": "staff"}, {"keyPath": "people.all", "mapping": "person"},
          {"keyPath": "tools", "mapping": "tool"}, {"keyPath": "error", "error": true}]}
        """

    static let records = """
        {"Employee": [
          {"id": 1, "name": "Ada", "nick": "a", "email": "a@b", "salary": 1.50, "rate": 0.1, "share": 0.5, "age": 36,
           "is_boss": true, "hired_at": "1835/01/02 03:04:05 +0000", "left_at": 0, "notes": {"a": [1, null]},
           "badge": "F81D4FAE-7DEC-11D0-A765-00A0C91E6BF6", "photo": "AAE=", "page": "http://a/b",
           "department": {"country": "GB", "code": 7}, "skills": ["sum", "\\u00e4b"], "boss": null},
          {"id": 2, "name": "straße", "nick": "ab", "email": null, "salary": 123456789012345678901234567890.1,
           "rate": -7.25, "share": 0, "age": -1, "is_boss": false, "hired_at": null, "left_at": -5, "notes": null,
           "badge": null, "photo": "", "page": null, "department": {"country": "", "code": 0}, "boss": 1, "twin": 3},
          {"id": 9223372036854775807, "name": "e\\u0301", "nick": null, "email": "x@\\ud83d\\ude00", "salary": 0,
           "rate": 9007199254740992, "share": null, "age": 32767, "is_boss": null, "left_at": 1.5,
           "hired_at": "2020/02/29 12:00:00 +0100", "notes": "a", "badge": null, "photo": "/w==", "page": "A",
           "boss": 1, "department": null},
          {"id": 3, "name": "", "nick": "b", "email": "\\u0000@z", "salary": 9, "rate": null, "share": 1, "age": null,
           "is_boss": true, "hired_at": null, "left_at": null, "notes": true, "badge": null, "photo": null,
           "page": "a*b?", "department": {"country": "GB", "code": 7, "name": "R&D"}, "boss": 2}]}
        """

    /// The operations of a payload: an object whose keys say what becomes of their values.
    ///
    /// `Employee` is processed and `=Employee` names objects; `*person` maps, `/staff/3` and anything else routes;
    /// `Employee.boss` relates, and `@Employee` changes, the `object` of an object by its `json`.
    func operations(_ document: JSONDocument) throws(Fault) -> ShortList<StagingOperation> {
        defer { withExtendedLifetime(document) {} }
        var operations = ShortList<StagingOperation>()
        for (key, value) in document.root.members {
            operations.append(try operation(String(decoding: key.bytes, as: UTF8.self), value, document))
        }
        return operations
    }

    private func operation(
        _ key: String, _ value: JSONValue, _ document: JSONDocument
    ) throws(Fault) -> StagingOperation {
        let model = plan.model
        var router = PayloadRouter(model, in: document)
        let name = String(key.dropFirst())
        if let entity = model.index(ofEntity: key) { return StagingOperation(entity: entity, json: value) }
        if key.hasPrefix("*") { return try router.operation(value, mapping: name) }
        if key.hasPrefix("="), let entity = model.index(ofEntity: name), value.kind == .array {
            return StagingOperation(entity: entity, json: value, .name)
        }
        let parts = key.split(separator: ".").map(String.init)
        if let object = value["object"], let json = value["json"] {
            if key.hasPrefix("@"), let entity = model.index(ofEntity: name), json.kind == .object {
                return StagingOperation(entity: entity, json: json, .change(object: object))
            }
            if parts.count == 2, let entity = model.index(ofEntity: parts[0]),
                let relationship = model.entities[entity].relationships.firstIndex(where: { $0.name == parts[1] })
            {
                return StagingOperation(entity: entity, json: json, .relate(object: object, relationship: relationship))
            }
        }
        do throws(StagingRefusal) {
            return try router.operation(value, path: key.hasPrefix("/") ? key : nil)
        } catch {
            guard case .fault(let fault) = error else { preconditionFailure("without an allowance there is room") }
            throw fault
        }
    }

    /// Stages all of a payload in one context.
    func stage(
        _ document: JSONDocument, _ policy: InvalidRecordPolicy, _ allowance: CountingAllowance? = nil
    ) throws -> StagedRows {
        let part = try JobCollection(try operations(document), in: document).stage(plan, policy, allowance)
        return StagedJobRows.unite([part], plan)
    }

    func job(
        _ action: StepAction, _ rows: StagedRows, sequence: Int64, _ policy: InvalidRecordPolicy
    ) -> StoreJob {
        StoreJob(
            id: "job-\(sequence)", contentHash: nil, sequence: sequence, policy: policy, wantsKeys: true,
            work: .steps([StagedStep(action: action, rows: rows)]), now: 0)
    }
}
