import BrokerInput
import BrokerJSON
import BrokerModel
import BrokerModelSources
import BrokerStaging
import BrokerStore
import TestSupport

/// A model in the form of `protocol/model.schema.json`.
final class ModelDocumentTarget: FuzzTarget {
    init() {}

    func run(_ input: UnsafeRawBufferPointer) throws {
        do {
            try requireReadable(try ModelDocument(parsing: JSONText(copying: input), source: "model.json"))
        } catch let error as ModelError {
            try requireSound(error)
        }
    }
}

/// The XML of a Core Data model: what is made of it is a model document, which can be written as JSON and read again.
final class CoreDataTarget: FuzzTarget {
    init() {}

    func run(_ input: UnsafeRawBufferPointer) throws {
        do {
            let document = try CoreDataModel.read(contents: Array(input), source: "contents")
            var writer = JSONWriter()
            document.root.write(to: &writer)
            do {
                _ = try ModelDocument(parsing: JSONText(copying: writer.bytes))
            } catch {
                throw FuzzFinding(description: "a model document that was made of XML is no JSON: \(error)")
            }
            try requireReadable(document)
        } catch let error as ModelError {
            try requireSound(error)
        }
    }
}

/// A predicate in the first line, its arguments as JSON in the rest: it is refused with a place, or finds the same
/// objects by SQL as in memory, and its opposite finds the others.
final class PredicateTarget: FuzzTarget {
    private let folder = TemporaryFolder()
    private let company: FuzzedCompany
    private let rows: StagedRows
    private let reader: StoreReader

    init() throws {
        company = try FuzzedCompany()
        let path = folder.path("store.sqlite")
        let document = try JSONDocument(parsing: JSONText(copying: Array(FuzzedCompany.records.utf8)))
        rows = try company.stage(document, .fail)
        let store = try Store(path: path, plan: company.plan)
        try store.begin()
        _ = try store.apply(company.job(.merge, rows, sequence: 1, .fail))
        try store.commit()
        reader = try StoreReader(path: path, plan: company.plan)
    }

    func run(_ input: UnsafeRawBufferPointer) throws {
        var input = FuzzInput(input)
        let text = String(decoding: input.line(), as: UTF8.self)
        let document = try? JSONDocument(parsing: JSONText(copying: input.rest))
        defer { withExtendedLifetime(document) {} }
        let employee = company.plan.model.index(ofEntity: "Employee")!
        do {
            let predicate = try company.plan.model.predicate(text, arguments: document?.root, ofEntity: employee)
            try compare(predicate, ofEntity: employee)
        } catch let fault as Fault {
            try require(fault.code == .invalidPredicate, "\(fault) is no fault of a predicate")
            try requireSound(fault)
        }
    }

    private func compare(_ predicate: Predicate, ofEntity employee: Int) throws {
        guard let found = try ids(predicate, ofEntity: employee) else { return }
        guard let others = try ids(.not(predicate), ofEntity: employee) else { return }
        try require(
            Set(found).isDisjoint(with: others) && found.count + others.count == FuzzedCompany.employeeCount,
            "\(found) match, and \(others) match the opposite")
        guard let inMemory = RecordPredicate(predicate), let table = rows.tables[employee] else { return }
        var budget = WorkBudget.unlimited
        var matching: [Int64] = []
        for row in 0..<table.rowCount {
            do throws(Fault) {
                if try inMemory.matches(budget: &budget, { table.row(row)[$0] }) {
                    matching.append(table.row(row)[FuzzedCompany.idColumn].integer)
                }
            } catch {
                return
            }
        }
        try require(matching.sorted() == found, "SQL finds \(found), memory \(matching.sorted())")
    }

    /// Ascending; nil when a pattern takes too long.
    private func ids(_ predicate: Predicate, ofEntity employee: Int) throws -> [Int64]? {
        var request = FetchRequest(entity: employee)
        request.predicate = predicate
        request.names = .local
        do {
            let bytes = try reader.fetch(request).bytes
            let document = try JSONDocument(parsing: JSONText(copying: bytes))
            return withExtendedLifetime(document) { document.root.elements.compactMap { $0["id"]?.int64 }.sorted() }
        } catch let failure as FetchFailure {
            guard case .fault(let fault) = failure else {
                throw FuzzFinding(description: "a predicate that was checked cannot be asked: \(failure)")
            }
            try requireSound(fault)
            return nil
        }
    }
}

/// A date's pattern in the first line, its zone in the second, a value in the rest: a pattern is compiled or refused, a
/// value becomes an instant that is stored in the one form, or is refused.
final class DateTarget: FuzzTarget {
    private let standard: StagingPlan

    init() throws { standard = try Self.plan(pattern: nil, zone: nil) }

    private static func plan(pattern: String?, zone: String?) throws -> StagingPlan {
        var writer = JSONWriter()
        writer.object { writer in
            writer.key("entities")
            writer.object { writer in
                writer.key("A")
                writer.object { writer in
                    writer.key("attributes")
                    writer.object { writer in
                        writer.key("at")
                        writer.object { writer in
                            writer.member("type", "date")
                            writer.member("format", pattern)
                            writer.member("timeZone", zone)
                        }
                    }
                }
            }
        }
        return try StagingPlan(ModelReader.read(JSONText(copying: writer.bytes)))
    }

    func run(_ input: UnsafeRawBufferPointer) throws {
        var input = FuzzInput(input)
        let pattern = String(decoding: input.line(), as: UTF8.self)
        let zone = String(decoding: input.line(), as: UTF8.self)
        let plan: StagingPlan
        do {
            plan = try Self.plan(pattern: pattern.isEmpty ? nil : pattern, zone: zone.isEmpty ? nil : zone)
        } catch let error as ModelError {
            return try requireSound(error)
        }
        var writer = JSONWriter()
        writer.string(input.text)
        try check(writer.bytes, plan)
        // As it is, a value may also be a number.
        try check(Array(input.rest), plan)
    }

    private func check(_ json: [UInt8], _ plan: StagingPlan) throws {
        guard let stored = try stored(json, plan) else { return }
        let form = Array("0000-00-00T00:00:00.000Z".utf8)
        let isDate =
            stored.count == form.count
            && zip(stored, form).allSatisfy { $1 == UInt8(ascii: "0") ? (0x30...0x39).contains($0) : $0 == $1 }
        try require(isDate, "a date is stored as \(String(decoding: stored, as: UTF8.self))")
        let quoted = [UInt8(ascii: "\"")] + stored + [UInt8(ascii: "\"")]
        try require(
            try self.stored(quoted, standard) == stored,
            "a date that was stored as \(String(decoding: stored, as: UTF8.self)) is read as another")
    }

    /// The stored value; nil when the value is refused, or is null. The value of a fetch is written, too.
    private func stored(_ json: [UInt8], _ plan: StagingPlan) throws -> [UInt8]? {
        let text = Array("{\"at\": ".utf8) + json + Array("}".utf8)
        guard let document = try? JSONDocument(parsing: JSONText(copying: text)) else { return nil }
        do {
            let part = try JobCollection([StagingOperation(entity: 0, json: document.root)], in: document)
                .stage(plan, .fail)
            let rows = StagedJobRows.unite([part], plan)
            guard let table = rows.tables[0], table.rowCount == 1 else { return nil }
            return withExtendedLifetime(rows) {
                let cell = table.row(0)[0]
                guard cell.kind == .text else { return nil }
                var writer = JSONWriter()
                for dates in FetchDates.allCases {
                    plan.valueWriter(entity: 0, attribute: 0, dates).write(cell, to: &writer)
                }
                return Array(cell.bytes)
            }
        } catch {
            guard case .fault(let fault) = error else {
                throw FuzzFinding(description: "what has no limit was refused")
            }
            try requireSound(fault)
            return nil
        }
    }
}

/// A file's bytes in one of the formats, which the first byte chooses: the same records and the same fault in whatever
/// pieces the bytes come, and each record is JSON.
final class FormatTarget: FuzzTarget {
    private static let formats = RecordFormat.allCases

    init() {}

    func run(_ input: UnsafeRawBufferPointer) throws {
        var input = FuzzInput(input)
        let choice = Int(input.byte())
        let format = Self.formats[choice % Self.formats.count]
        let choices = choice / Self.formats.count
        let bytes = Array(input.rest)
        let root = choices % 2 == 0 ? nil : RecordRoot("a.b")
        let whole = try Reading(format, bytes, root, pieces: max(1, bytes.count))
        let pieces = try Reading(format, bytes, root, pieces: 1 + choices / 2 % 8)
        try require(whole.records == pieces.records, "\(format): the records are others when the bytes come in pieces")
        // libxml2 has several sentences for one fault, and chooses by how much of the document it has.
        let isSame = format == .xml ? whole.isFaulty(as: pieces) : whole.fault == pieces.fault
        try require(isSame, "\(format): \(whole.faultText), or in pieces \(pieces.faultText)")
    }
}

private struct Reading {
    private(set) var records: [[UInt8]] = []
    private(set) var fault: InputFault?

    var faultText: String {
        fault.map { "\($0.text) at \($0.place.map(String.init(describing:)) ?? "nowhere")" } ?? "good"
    }

    /// Both are good, or both are not, at the same place.
    func isFaulty(as other: Reading) -> Bool {
        (fault == nil) == (other.fault == nil) && fault?.place == other.fault?.place
    }

    init(_ format: RecordFormat, _ bytes: [UInt8], _ root: RecordRoot?, pieces size: Int) throws {
        var found: [InputRecord] = []
        do throws(InputFault) {
            let reader = InputReader(PiecedBytes(bytes, size), InputReading(format: format, root: root))
            while try reader.next({ found.append($0) }) {}
        } catch {
            fault = error
        }
        for record in found {
            records.append(Array(record.json))
            guard record.isSound else { continue }
            let text = JSONText(copying: Array(record.json))
            try require(
                JSONGrammar.accepts(text.bytes, maximumDepth: JSONDocument.defaultMaximumDepth),
                "\(format): a record that is called sound is no JSON")
        }
    }
}

/// Bytes in pieces of one size.
private final class PiecedBytes: ByteSource {
    private let bytes: [UInt8]
    private let size: Int
    private(set) var bytesRead = 0

    init(_ bytes: [UInt8], _ size: Int) {
        self.bytes = bytes
        self.size = size
    }

    func next() throws(InputFault) -> [UInt8] {
        defer { bytesRead = min(bytes.count, bytesRead + size) }
        return Array(bytes[bytesRead..<min(bytes.count, bytesRead + size)])
    }
}

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
            JobFacts(id: "job-\(sequence)", contentHash: nil, JobTerms(policy, wantsKeys: true)), sequence: sequence,
            work: .steps([StagedStep(action: action, rows: rows)]), now: 0)
    }
}
