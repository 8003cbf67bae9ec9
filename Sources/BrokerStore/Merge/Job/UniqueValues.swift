internal import BrokerModel
internal import BrokerStaging

/// Unique values that a record brings while another object has them.
final class UniqueValues {
    private let merger: Merger
    /// Nil where such a record is at fault at once.
    private let parked: ParkedValues?
    /// Returns the fault with the path of the value at that offset.
    var locate: (Fault, Int) -> Fault = { fault, _ in fault }

    init(_ merger: Merger, _ parked: ParkedValues?) {
        self.merger = merger
        self.parked = parked
    }

    /// Parks the values of other objects that the record claims.
    ///
    /// - Parameter object: the object of the record; nil for a new one.
    /// - Returns: whether there was one, so that the row can be written.
    /// - Throws: `invalid` when another object keeps its value.
    func free(
        _ entity: Int, _ cells: UnsafePointer<Cell>, _ object: AppliedObject?, claimedAt offset: Int
    ) throws(ApplyingFault) -> Bool {
        let model = merger.plan.model.entities[entity]
        let lists = model.hasRowKey && !model.identity.isEmpty ? model.unique + [model.identity] : model.unique
        for list in lists {
            let claimed: OccupiedValue.Value?
            do throws(StoreError) {
                claimed = try value(of: list, entity, cells, object)
            } catch {
                throw .ended(MergeFailure.store(error))
            }
            guard let claimed else { continue }
            guard let parked, list != model.identity, parked.canPark(claimed) else {
                // An operation that gives its object another identity is at fault itself.
                throw list == model.identity
                    ? .invalid(Self.taken(model), offset: object == nil ? offset : nil)
                    : .invalid(Self.taken(list, model), offset: offset)
            }
            let occupied = OccupiedValue(value: claimed, claimant: entity, claimedAt: offset)
            do throws(MergeFailure) {
                try parked.park([occupied], locate)
            } catch {
                throw .ended(error)
            }
            return true
        }
        return false
    }

    /// The values of a unique list that the record's object would get, if another object has them; nil otherwise.
    private func value(
        of list: [Int], _ entity: Int, _ cells: UnsafePointer<Cell>, _ object: AppliedObject?
    ) throws(StoreError) -> OccupiedValue.Value? {
        let table = merger.plan.model.topmost(of: entity)
        var values: [OwnedCell] = []
        for attribute in list {
            if cells[attribute].kind != .absent {
                values.append(OwnedCell(copying: cells[attribute]))
            } else if let object, merger.plan.model.entities[object.entity].attributeIndices.contains(attribute) {
                let find = try merger.objects.value(of: attribute, table)
                find.bind(object.number, at: 1)
                defer { find.reset() }
                guard try find.step() else { return nil }
                values.append(OwnedCell(copying: find.cell(0)))
            } else {
                values.append(
                    OwnedCell(copying: merger.plan.defaultCell(entity: entity, attribute: attribute) ?? .null))
            }
        }
        guard !values.contains(where: { $0.cell.kind == .null }) else { return nil }
        let find = try merger.objects.holder(of: list, table)
        for (position, value) in values.enumerated() { find.bind(copying: value, at: position + 1) }
        defer { find.reset() }
        guard try find.step(), find.integer(0) != object?.number else { return nil }
        let key = try merger.forms.key(values.map(\.cell), of: entity, list)
        return OccupiedValue.Value(entity: table, attributes: list, key: key)
    }

    static func taken(_ model: Entity) -> Fault {
        Fault(
            .constraintViolation,
            "Another \(model.name) has the identity that the record brings, so the object cannot get it. Change that "
                + "identity, or process the record without `object` to update the other one.", entity: model.name)
    }

    static func taken(_ list: [Int], _ model: Entity) -> Fault {
        let names = list.map { model.attributes[$0].name }
        let what = names.count == 1 ? "value of \(names[0])" : "values of \(names.joined(separator: ", ")) together"
        return Fault(
            .constraintViolation,
            "Another \(model.name) has the \(what) that this one would get, and they are unique in the model. "
                + "Change one of the two, or take the unique constraint out of the model.",
            entity: model.name, attribute: names.count == 1 ? names[0] : nil)
    }
}
