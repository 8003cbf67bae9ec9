internal import BrokerModel

/// A column whose value a nested record takes from the record that contains it.
struct HolderValuePlan: Sendable {
    /// The holder's value, by the relationship that contains the record.
    struct Source: Sendable {
        /// The entity whose table has the holders.
        let table: Int
        let relationship: Int
        /// The holder's column; nil takes the record's position.
        let column: Int?
    }

    let column: Int
    /// The value precedes those of the record's own keys.
    let isPreferred: Bool
    private let sources: [Source]

    init(_ column: Int, _ value: HolderValue, of entity: Int, _ model: Model) {
        self.column = column
        isPreferred = model.entities[entity].attributes[column].prefersHolder
        sources = model.holders.holders(of: entity).compactMap { holder in
            let (table, place) = (model.topmost(of: holder.entity), holder.relationship)
            guard case .attribute(let name) = value else {
                return Source(table: table, relationship: place, column: nil)
            }
            let identity = model.entities[holder.entity].identity
            let names = model.entities[holder.entity].attributes
            return identity.first { names[$0].name.hasSameBytes(as: name) }.map {
                Source(table: table, relationship: place, column: $0)
            }
        }
    }

    /// Returns where that holder has the value; nil when it has none.
    func source(_ holder: RecordHolder) -> Source? {
        sources.first { $0.relationship == Int(holder.relationship) && $0.table == Int(holder.entity) }
    }
}

/// The relationship that owns the objects of an entity.
struct OwnerPlan: Sendable {
    /// The entity whose table has the owners.
    let table: Int
    let relationship: Int
    /// The owner's name and its relationship, for messages.
    let name: String

    init(_ owner: HolderRelationship, of model: Model) {
        table = model.topmost(of: owner.entity)
        relationship = owner.relationship
        let entity = model.entities[owner.entity]
        name = "\(entity.name) (\(entity.relationships[owner.relationship].name))"
    }

    /// Whether the record is nested where its objects live.
    func isHolder(_ holder: RecordHolder?) -> Bool {
        holder.map { Int($0.entity) == table && Int($0.relationship) == relationship } ?? false
    }
}

/// The record that contains a nested one.
struct RecordHolder {
    // Small, because every record is passed with one, or with nil.
    /// The entity whose table has its row.
    let entity: UInt32
    let row: UInt32
    /// The relationship whose value is, or contains, the nested record.
    let relationship: UInt32
    /// The position of the nested record among the values.
    let position: UInt32
}
