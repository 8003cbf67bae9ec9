internal import BrokerJSON

/// The column `_extra` of one table.
package final class ExtraColumn: Sendable {
    package let column: Int
    /// By column, the paths of values that the column's attribute cannot hold; empty where there are none.
    private let paths: [[UInt8]]

    /// - Parameter plans: those of the table's entities.
    init?(_ plans: [EntityPlan]) {
        guard let column = plans.map(\.extraColumn).max(), column >= 0 else { return nil }
        self.column = column
        paths = plans[0].attributes.indices.map { column in
            plans.lazy.map(\.extraPaths).first { !$0.isEmpty && !$0[column].isEmpty }?[column] ?? []
        }
    }

    /// What a row's worth of cells changes in the column: a value takes the place of one that its attribute could not hold.
    ///
    /// - Parameter isNew: the column has no value yet.
    package func entries(of cells: UnsafePointer<Cell>, isNew: Bool = false) -> [UInt8] {
        var entries: [UInt8] = []
        if !isNew {
            for (column, path) in paths.enumerated() where !path.isEmpty && cells[column].kind != .absent {
                ExtraValues.add(path, nil, to: &entries)
            }
        }
        guard cells[column].kind == .text else { return entries }
        return entries.isEmpty ? Array(cells[column].bytes) : entries + [UInt8(ascii: ",")] + cells[column].bytes
    }
}

/// A value of the column `_extra` that an attribute can hold.
package struct ExtraCandidate {
    package let attribute: Int
    package let cell: OwnedCell
    /// The entry that takes it away.
    package let removal: [UInt8]
}

extension StagingPlan {
    /// The values that attributes of the entity can hold, of those without a value: the model has changed since they were stored.
    ///
    /// - Parameter column: the value of `_extra`.
    package func candidates(of entity: Int, in column: UnsafeBufferPointer<UInt8>) -> [ExtraCandidate] {
        guard let document = JSONDocument(extra: Array(column)) else { return [] }
        let plan = entities[entity]
        var arena = ByteArena()
        return plan.ownColumns.compactMap { attribute in
            guard attribute != plan.extraColumn, !plan.identity.contains(attribute) else { return nil }
            for path in model.entities[entity].attributes[attribute].recordPaths {
                guard let value = document.root.value(at: path), !value.isNull else { continue }
                var cell: Cell?
                do throws(ValueFault) {
                    cell = try plan.attributes[attribute].converter.convert(value, arena: &arena)
                } catch {}
                guard let cell, !arena.isInexact, !arena.isPadded else { continue }
                var removal: [UInt8] = []
                ExtraValues.add(ExtraValues.path(path), nil, to: &removal)
                return ExtraCandidate(attribute: attribute, cell: OwnedCell(copying: cell), removal: removal)
            }
            return nil
        }
    }
}

extension JSONValue {
    func value(at path: [String]) -> JSONValue? {
        var value = self
        for key in path {
            guard let next = value[key] else { return nil }
            value = next
        }
        return value
    }
}
