internal import BrokerJSON
internal import BrokerModel

extension StagingContext {
    /// Stages a relationship's value: nested records, bare keys, or null.
    mutating func stage(
        _ value: JSONValue, _ plan: EntityPlan.RelationshipPlan, of entity: EntityPlan, _ row: Int
    ) throws(StagingFault) {
        if plan.relationship.isToMany {
            try stageToMany(value, plan, of: entity, row)
        } else {
            try stageToOne(value, plan, of: entity, row)
        }
    }

    private mutating func stageToOne(
        _ value: JSONValue, _ plan: EntityPlan.RelationshipPlan, of entity: EntityPlan, _ row: Int
    ) throws(StagingFault) {
        guard case .column(let column) = plan.form else { return }
        if value.isNull {
            unlink(entity, row, column)
        } else if let destination = try destination(value, plan, of: entity) {
            link(entity, row, column, to: destination)
        }
    }

    private mutating func stageToMany(
        _ value: JSONValue, _ plan: EntityPlan.RelationshipPlan, of entity: EntityPlan, _ row: Int
    ) throws(StagingFault) {
        if value.isNull || plan.relationship.assignment == .replace {
            replacements.append(StagedReplacement(entity: entity.index, row: row, relationship: plan.index))
        }
        switch value.kind {
        case .null: return
        case .array:
            for element in value.elements { try stageElement(element, plan, of: entity, row) }
        default: try stageElement(value, plan, of: entity, row)
        }
    }

    private mutating func stageElement(
        _ value: JSONValue, _ plan: EntityPlan.RelationshipPlan, of entity: EntityPlan, _ row: Int
    ) throws(StagingFault) {
        guard let destination = try destination(value, plan, of: entity) else { return }
        switch plan.form {
        case .column: return
        case .destinationColumn(let column):
            link(self.plan.entities[plan.relationship.destination], destination, column, to: row)
        case .linkTable(let table, let isReversed):
            let (source, target) = isReversed ? (destination, row) : (row, destination)
            links[table].append(
                StagedLink(source: UInt32(source), destination: UInt32(target), isNamedByDestination: isReversed))
            if self.plan.layout.linkTables[table].isSymmetric, row != destination {
                links[table].append(
                    StagedLink(source: UInt32(target), destination: UInt32(source), isNamedByDestination: true))
            }
        }
    }

    /// The row that a relationship's value means; nil when it was left out.
    private mutating func destination(
        _ value: JSONValue, _ plan: EntityPlan.RelationshipPlan, of entity: EntityPlan
    ) throws(StagingFault) -> Int? {
        let destination = self.plan.entities[plan.relationship.destination]
        do throws(StagingFault) {
            if value.kind == .object { return try stage(value, destination) }
            return try stageBareKey(value, plan.relationship, of: entity, to: destination)
        } catch {
            // The smallest object around the fault is left out; its parent keeps everything but the link.
            guard policy == .skip else { throw error }
            rejections.append(Rejection(error.fault, at: error.offset))
            return nil
        }
    }

    private mutating func stageBareKey(
        _ value: JSONValue, _ relationship: Relationship, of entity: EntityPlan, to destination: EntityPlan
    ) throws(StagingFault) -> Int {
        guard value.kind != .array, !value.isNull else {
            throw fault(
                .invalidValue,
                "\(relationship.name) of \(entity.name) takes objects and bare keys"
                    + "\(relationship.isToMany ? ", or an array of those" : ""), not \(value.kind.phrase) here.",
                value, destination)
        }
        guard destination.identity.count == 1 else {
            let why = destination.identity.isEmpty ? "has no identity" : "has an identity of several attributes"
            throw fault(
                .invalidValue,
                "A bare key cannot name an object of \(destination.name), which \(why). Send an object.",
                value, destination)
        }
        let column = destination.identity[0]
        let cells = scratch.push(destination.attributes.count)
        defer { scratch.pop(destination.attributes.count) }
        do throws(ValueFault) {
            scratch[cells + column] = try destination.attributes[column].converter.convert(value, arena: &arena)
        } catch {
            throw StagingFault(
                Fault(
                    .invalidValue, error.message, entity: destination.name,
                    attribute: self.plan.model.entities[destination.index].attributes[column].name), at: value.offset)
        }
        let origin: RowOrigin =
            switch relationship.missing {
            case .stub: .stub
            case .ignore: .mayBeMissing
            case .fail: .mustExist
            }
        let table = tables[destination.index]
        let offset = value.offset
        return scratch.withCells(at: cells) { cells in
            table.pointee!.findOrAdd(identity: cells, offset: offset, origin: origin)
        }
    }

    // MARK: - Links, true on both sides

    private mutating func link(_ entity: EntityPlan, _ row: Int, _ column: Int, to destination: Int) {
        let link = entity.layout.link(atColumn: column)
        guard let back = link.oneToOneColumn else {
            tables[entity.index].pointee!.row(row)[column] = .object(row: destination)
            return
        }
        unlinkPartner(ofRow: row, entity.index, column, link.destination, back)
        unlinkPartner(ofRow: destination, link.destination, back, entity.index, column)
        tables[entity.index].pointee!.row(row)[column] = .object(row: destination)
        tables[link.destination].pointee!.row(destination)[back] = .object(row: row)
    }

    private mutating func unlink(_ entity: EntityPlan, _ row: Int, _ column: Int) {
        let link = entity.layout.link(atColumn: column)
        if let back = link.oneToOneColumn { unlinkPartner(ofRow: row, entity.index, column, link.destination, back) }
        tables[entity.index].pointee!.row(row)[column] = .null
    }

    /// What this job linked to the row, one to one, is linked to it no more.
    private mutating func unlinkPartner(ofRow row: Int, _ entity: Int, _ column: Int, _ other: Int, _ back: Int) {
        let cell = tables[entity].pointee!.row(row)[column]
        guard cell.kind == .object else { return }
        tables[other].pointee!.row(cell.row)[back] = .null
    }
}
