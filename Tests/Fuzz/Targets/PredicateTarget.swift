import BrokerJSON
import BrokerModel
import BrokerStaging
import BrokerStore
import TestSupport

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
