import BrokerJSON
import BrokerModel
import BrokerStaging

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
