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
            try format.read(PiecedBytes(bytes, size), root: root, wait: {}) { found.append($0) }
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
