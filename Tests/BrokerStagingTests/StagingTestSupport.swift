import BrokerJSON
import BrokerModel
import Synchronization

@testable import BrokerStaging

/// A model under test, and payloads staged by it.
///
/// A payload is an object of entity names and their `json`, in payload order; a name may occur again.
struct Staging {
    let plan: StagingPlan

    /// - Parameter model: in the contract's JSON form.
    init(_ model: String) throws { plan = try StagingPlan(ModelReader.read(JSONText(copying: Array(model.utf8)))) }

    /// Stages each collection in a context of its own, and unites them.
    func stage(_ payload: String, _ policy: InvalidRecordPolicy = .fail) throws -> Staged {
        let document = try JSONDocument(parsing: JSONText(copying: Array(payload.utf8)))
        let collections = JobCollection.collections(of: operations(document), in: document)
        let parts = try collections.map { try $0.stage(plan, policy) }
        return Staged(rows: StagedJobRows.unite(parts, plan), plan: plan)
    }

    /// Stages the whole payload in one context.
    func stageTogether(_ payload: String, _ policy: InvalidRecordPolicy = .fail) throws -> Staged {
        let document = try JSONDocument(parsing: JSONText(copying: Array(payload.utf8)))
        let whole = JobCollection(operations(document), in: document)
        return Staged(rows: StagedJobRows.unite([try whole.stage(plan, policy)], plan), plan: plan)
    }

    /// Returns the bytes that one context takes from its allowance for the payload; nil when the allowance refuses.
    ///
    /// - Parameter limit: bytes that the allowance grants.
    func memory(_ payload: String, _ policy: InvalidRecordPolicy = .fail, limit: Int = .max) throws -> Int? {
        let document = try JSONDocument(parsing: JSONText(copying: Array(payload.utf8)))
        let whole = JobCollection(operations(document), in: document)
        let allowance = CountingAllowance(limit: limit)
        do {
            _ = try whole.stage(plan, policy, allowance)
            return allowance.taken
        } catch StagingRefusal.noRoom {
            return nil
        }
    }

    /// Returns the fault of a rejected payload; nil without one.
    func fault(_ payload: String) throws -> Fault? {
        do {
            _ = try stage(payload)
            return nil
        } catch StagingRefusal.fault(let fault) {
            return fault
        }
    }

    private func operations(_ document: JSONDocument) -> ShortList<StagingOperation> {
        withExtendedLifetime(document) {
            ShortList(
                document.root.members.map { key, value in
                    StagingOperation(entity: plan.model.index(ofEntity: key.string!)!, json: value)
                })
        }
    }
}

/// An allowance that grants up to a limit, and counts.
private final class CountingAllowance: StagingAllowance {
    private let limit: Int
    private let count = Mutex(0)

    init(limit: Int) { self.limit = limit }

    var taken: Int { count.withLock { $0 } }

    func take(_ bytes: Int) -> Bool {
        count.withLock { taken in
            guard bytes <= limit - taken else { return false }
            taken += bytes
            return true
        }
    }
}

/// Staged rows as text: `id=1 name=Ada boss=@2 desk=nil`, without absent columns.
struct Staged {
    let rows: StagedRows
    let plan: StagingPlan

    /// The rows of that entity, in the order in which they were first named.
    func callAsFunction(_ entity: String) -> [String] {
        let index = plan.model.index(ofEntity: entity)!
        guard let table = rows.tables[index] else { return [] }
        return (0..<table.rowCount).map { describe(index, $0) }
    }

    /// The rows in the order in which they are merged, by the columns that they bring.
    func merged(_ entity: String) -> [[String]] {
        let index = plan.model.index(ofEntity: entity)!
        guard let table = rows.tables[index] else { return [] }
        return table.groups.flatMap(table.uniform).map { group in
            group.range.map { describe(index, group.order[$0]) }
        }
    }

    func origins(_ entity: String) -> [RowOrigin] {
        rows.tables[plan.model.index(ofEntity: entity)!]?.namings.map(\.origin) ?? []
    }

    /// The links of all link tables: `Post.tags 1-7`, and the sides that named each.
    var links: [String] {
        zip(plan.layout.linkTables, rows.links).flatMap { table, links in
            let source = plan.model.entities[table.source]
            let name = "\(source.name).\(source.relationships[table.relationship].name)"
            return links.map { link in
                let ends = [(table.source, link.source), (table.destination, link.destination)]
                    .map { identity($0, Int($1)) }
                let namers = (link.isNamedBySource ? [ends[0]] : []) + (link.isNamedByDestination ? [ends[1]] : [])
                return "\(name) \(ends[0])-\(ends[1]) named by \(namers.joined(separator: " and "))"
            }
        }
    }

    /// To-many relationships whose other links end: `Post 1 tags`.
    var replacements: [String] {
        rows.replacements.map {
            let entity = plan.model.entities[$0.entity]
            return "\(entity.name) \(identity($0.entity, $0.row)) \(entity.relationships[$0.relationship].name)"
        }
    }

    /// `code path`, in payload order.
    var rejections: [String] { rows.rejected.map { "\($0.code.rawValue) \($0.path ?? "nowhere")" } }

    var warnings: [String] { rows.warnings.map { "\($0.entity) \($0.key ?? "") \($0.count)" } }

    private func describe(_ entity: Int, _ row: Int) -> String {
        let model = plan.model.entities[entity]
        let layout = plan.layout.entities[entity]
        let cells = rows.tables[entity]!.row(row)
        return (0..<layout.columnCount).compactMap { column in
            guard cells[column].kind != .absent else { return nil }
            guard column >= layout.attributeCount else {
                return "\(model.attributes[column].name)=\(text(cells[column]))"
            }
            let link = layout.link(atColumn: column)
            let name = model.relationships[link.relationship].name
            return cells[column].kind == .null
                ? "\(name)=nil" : "\(name)=@\(identity(link.destination, cells[column].row))"
        }.joined(separator: " ")
    }

    /// Returns the row's identity, or its number if it has none.
    private func identity(_ entity: Int, _ row: Int) -> String {
        let table = rows.tables[entity]!
        guard table.hasIdentity(row) else { return "#\(row)" }
        return plan.model.entities[entity].identity.map { text(table.row(row)[$0]) }.joined(separator: "/")
    }

    private func text(_ cell: Cell) -> String {
        switch cell.kind {
        case .null: "nil"
        case .integer: "\(cell.integer)"
        case .real: "\(cell.real)"
        case .text: String(decoding: cell.bytes, as: UTF8.self)
        case .blob: "\(Array(cell.bytes))"
        case .absent, .object: "?"
        }
    }
}

/// A converted value with bytes of its own, for comparison.
enum StoredValue: Equatable {
    case null
    case integer(Int64)
    case real(Double)
    case text(String)
    case blob([UInt8])
    case refused(FaultCode)
    case other(Cell.Kind)

    init(_ cell: Cell) {
        self =
            switch cell.kind {
            case .null: .null
            case .integer: .integer(cell.integer)
            case .real: .real(cell.real)
            case .text: .text(String(decoding: cell.bytes, as: UTF8.self))
            case .blob: .blob(Array(cell.bytes))
            case .absent, .object: .other(cell.kind)
            }
    }

    static let inconvertible = StoredValue.refused(.invalidValue)
    static let notAllowed = StoredValue.refused(.validationFailed)
}

extension ValueConverter {
    /// Returns the stored value of a JSON text.
    func stored(_ json: String) throws -> StoredValue {
        let document = try JSONDocument(parsing: JSONText(copying: Array(json.utf8)))
        return withExtendedLifetime(document) {
            var arena = ByteArena()
            do throws(ValueFault) {
                return StoredValue(try convert(document.root, arena: &arena))
            } catch {
                return .refused(error.code)
            }
        }
    }

    /// Returns the message of a rejected JSON text; nil when it is accepted.
    func refusal(of json: String) throws -> String? {
        let document = try JSONDocument(parsing: JSONText(copying: Array(json.utf8)))
        return withExtendedLifetime(document) {
            var arena = ByteArena()
            do throws(ValueFault) {
                _ = try convert(document.root, arena: &arena)
                return nil
            } catch {
                return error.message
            }
        }
    }

    /// Whether the bytes of the value are inside the document, so that none were copied.
    func storesInPlace(_ json: String) throws -> Bool {
        let document = try JSONDocument(parsing: JSONText(copying: Array(json.utf8)))
        return try withExtendedLifetime(document) {
            var arena = ByteArena()
            let start = try convert(document.root, arena: &arena).bytes.baseAddress!
            let text = document.text.bytes
            return text.baseAddress! <= start && start < text.baseAddress! + text.count
        }
    }
}

/// Calls `body` with the text's bytes; its results in the arena are valid during the call.
func withBytes<Result>(
    of text: String, _ body: (UnsafeBufferPointer<UInt8>, inout ByteArena) throws -> Result
) rethrows -> Result {
    var text = text
    return try text.withUTF8 { bytes in
        var arena = ByteArena()
        return try body(bytes, &arena)
    }
}
