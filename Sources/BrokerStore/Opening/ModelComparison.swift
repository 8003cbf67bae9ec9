internal import BrokerModel
internal import BrokerStaging

/// What a changed model would do to the meaning of what is stored: everything that it may not do, in the order of the
/// stored model.
///
/// Columns alone do not tell: a `string` and a `date` are both TEXT. What may change freely is what only matters to records
/// on their way in: keys, `root`, formats and time zones, transforms, limits, `onInvalid`, defaults, `assignment`,
/// `missing`, `modified`. What is new, required, unique, or in a foreign key, is seen in the tables: ``SchemaMigration``.
struct ModelComparison {
    private(set) var differences: [StoreDifference] = []
    private let stored: Model
    private let wanted: Model

    init(from stored: Model, to wanted: Model) {
        self.stored = stored
        self.wanted = wanted
        for entity in stored.entities {
            if let found = wanted.entities.first(where: { isSame($0.name, entity.name) }) {
                compare(entity, found)
            } else {
                differ(entity.table, "\(entity.name) is in the store, but not in the model")
            }
        }
    }

    private mutating func differ(_ subject: String, _ text: String) {
        differences.append(StoreDifference(subject: subject, text: text))
    }

    private mutating func compare(_ old: Entity, _ new: Entity) {
        if !isSame(old.table, new.table) {
            differ(
                old.table,
                "\(old.name) is kept in the table \(old.table) in the store, and in \(new.table) in the model")
        }
        let (oldIdentity, newIdentity) = (old.identityNames, new.identityNames)
        if !isSame(oldIdentity, newIdentity) {
            differ(
                old.table,
                "\(old.name) is identified by \(oldIdentity) in the store, and by \(newIdentity) in the model")
        } else if old.isIdentityOptional != new.isIdentityOptional {
            let words = old.isIdentityOptional ? ("optional", "required") : ("required", "optional")
            differ(old.table, "the identity of \(old.name) is \(words.0) in the store, and \(words.1) in the model")
        }
        for attribute in old.attributes {
            let subject = "\(old.table).\(attribute.name)"
            let name = "\(old.name).\(attribute.name)"
            if let found = new.attributes.first(where: { isSame($0.name, attribute.name) }) {
                compare(attribute, found, subject, name)
            } else {
                differ(subject, "\(name) is in the store, but not in the model")
            }
        }
        for relationship in old.relationships {
            let subject = "\(old.table).\(relationship.name)"
            let name = "\(old.name).\(relationship.name)"
            if let found = new.relationships.first(where: { isSame($0.name, relationship.name) }) {
                compare(relationship, found, of: new, subject, name)
            } else {
                differ(subject, "\(name) is in the store, but not in the model")
            }
        }
    }

    private mutating func compare(_ old: Attribute, _ new: Attribute, _ subject: String, _ name: String) {
        if old.type != new.type, !new.type.holds(old.type) {
            differ(subject, "\(name) is \(old.type.rawValue) in the store, and \(new.type.rawValue) in the model")
        } else if old.type == .date, old.dateStorage != new.dateStorage {
            differ(
                subject,
                "\(name) is stored as \(old.dateStorage.rawValue) in the store, and as \(new.dateStorage.rawValue) in the "
                    + "model")
        }
    }

    private mutating func compare(
        _ old: Relationship, _ new: Relationship, of entity: Entity, _ subject: String, _ name: String
    ) {
        let (oldDestination, newDestination) = (stored.entities[old.destination], wanted.entities[new.destination])
        guard isSame(oldDestination.name, newDestination.name) else {
            return differ(
                subject,
                "\(name) leads to \(oldDestination.name) in the store, and to \(newDestination.name) in the model")
        }
        guard old.isToMany == new.isToMany else {
            let words = old.isToMany ? ("to-many", "to-one") : ("to-one", "to-many")
            return differ(subject, "\(name) is \(words.0) in the store, and \(words.1) in the model")
        }
        if old.isOrdered != new.isOrdered {
            let words = old.isOrdered ? ("ordered", "not ordered") : ("not ordered", "ordered")
            differ(subject, "\(name) is \(words.0) in the store, and \(words.1) in the model")
        }
        let (oldInverse, newInverse) = (stored.inverse(of: old)?.name, wanted.inverse(of: new)?.name)
        guard !isSame(oldInverse ?? "", newInverse ?? "") else { return }
        if oldInverse == nil, keepsItsLinks(new, of: entity, oldDestination) { return }
        differ(
            subject,
            "the inverse of \(name) is \(oldInverse ?? "none") in the store, and \(newInverse ?? "none") in the model")
    }

    /// The relationship has got an inverse that is new, too, and its links stay where they are and mean the same: the
    /// inverse is to-many and keeps no order, and this side has its own column or owns the table of the pair.
    private func keepsItsLinks(_ new: Relationship, of entity: Entity, _ oldDestination: Entity) -> Bool {
        guard let inverse = wanted.inverse(of: new), inverse.isToMany, !inverse.isOrdered,
            !oldDestination.relationships.contains(where: { isSame($0.name, inverse.name) }),
            let entityIndex = wanted.index(ofEntity: entity.name),
            let index = entity.index(ofRelationship: new.name)
        else { return false }
        if case .linkTable(_, isReversed: true) = RowLayout(wanted).entities[entityIndex].forms[index] { return false }
        return true
    }
}

/// Names are the same byte by byte, as in SQLite; Swift takes some that differ for equal.
private func isSame(_ left: String, _ right: String) -> Bool { left.utf8.elementsEqual(right.utf8) }

extension Entity {
    fileprivate var identityNames: String {
        identity.isEmpty ? "nothing" : identity.map { attributes[$0].name }.joined(separator: ", ")
    }
}

extension AttributeType {
    /// Whatever the other type has stored is a value of this one, written in the same way.
    fileprivate func holds(_ other: AttributeType) -> Bool {
        let widths: [AttributeType] = [.integer16, .integer32, .integer64]
        guard let width = widths.firstIndex(of: self), let otherWidth = widths.firstIndex(of: other) else {
            return false
        }
        return otherWidth <= width
    }
}
