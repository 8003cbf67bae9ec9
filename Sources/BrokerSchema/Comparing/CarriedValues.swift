import BrokerModel

/// Values that go along a to-one link into other rows: those of attributes that are renamed from a path, `link.attribute`.
///
/// ```
/// flattened   Person.address_city   takes   address.city          of the object to which the row's link leads
/// split       Address.city          takes   person.address_city   of its owner: each one with a value gets an object
/// ```
///
/// A path that leads elsewhere names nothing in the store: then the attribute is new, and what the model lacks is removed.
struct CarriedValues {
    /// An earlier object's attribute at the end of an earlier link.
    struct Flattened {
        let link: Int
        let destination: Int
        let attribute: Int
    }

    /// An owned entity that is new, and the attributes of its owner from which its own take their values.
    struct Split {
        let owner: Int
        let relationship: Int
        let formerOwner: Int
        /// By attribute of the owned entity.
        var sources: [Int: Int] = [:]
    }

    private(set) var flattened: [Int: [Int: Flattened]] = [:]
    /// By owned entity of the changed model.
    private(set) var split: [Int: Split] = [:]
    /// Parts of the earlier model whose values others take, with what these are.
    private(set) var takers: [StoredPart: String] = [:]
    /// Earlier entities that go, while others take all that their objects have.
    private(set) var emptied: Set<Int> = []

    private let old: Model
    private let new: Model
    private let match: ModelMatch
    private let sides: (old: ColumnNaming, new: ColumnNaming)

    init(from old: Model, to new: Model, _ match: ModelMatch) {
        (self.old, self.new, self.match) = (old, new, match)
        sides = (ColumnNaming(old), ColumnNaming(new))
        for index in new.entities.indices where !new.isInHierarchy(index) {
            for place in new.entities[index].attributeIndices where match.entities[index].attributes[place] == nil {
                guard let (link, name) = new.entities[index].attributes[place].formerPath else { continue }
                let attribute = new.entities[index].attributes[place]
                if let former = match.entities[index].old {
                    guard let found = flattening(former, link, name),
                        attribute.holdsAll(of: old.entities[found.destination].attributes[found.attribute])
                    else { continue }
                    flattened[index, default: [:]][place] = found
                } else if let found = splitting(index, link, name),
                    attribute.holdsAll(of: old.entities[found.split.formerOwner].attributes[found.source])
                {
                    split[index, default: found.split].sources[place] = found.source
                }
            }
        }
        for (index, attributes) in flattened {
            guard let former = match.entities[index].old else { continue }
            for link in Set(attributes.values.map(\.link)) { note(link, of: former, index, attributes) }
        }
        for (index, split) in split {
            for source in split.sources.values {
                takers[old.part(.attribute, source, of: split.formerOwner)] = new.entities[index].name
            }
        }
    }

    /// The earlier tables that rows of others take values from.
    var tables: Set<ExactText> {
        Set(flattened.values.flatMap(\.values).map { ExactText(old.table(of: $0.destination)) })
    }

    /// The columns that the earlier link and its destination's key have; nil where the link has several, or other rows.
    func columns(of flattened: Flattened, in former: Int) -> (link: String, table: String, key: String)? {
        guard case .column = sides.old.layout.entities[former].forms[flattened.link] else { return nil }
        let links = sides.old.linkColumns(old.entities[former].relationships[flattened.link])
        let keys = sides.old.keyColumns(flattened.destination)
        guard links.count == 1, keys.count == 1 else { return nil }
        return (links[0], old.table(of: flattened.destination), keys[0].name)
    }

    // MARK: - Flattened

    private func flattening(_ former: Int, _ link: String, _ name: String) -> Flattened? {
        guard !old.isInHierarchy(former), let place = old.entities[former].index(ofRelationship: link),
            !old.entities[former].relationships[place].isToMany
        else { return nil }
        let destination = old.entities[former].relationships[place].destination
        guard !old.isInHierarchy(destination), let attribute = old.entities[destination].index(ofAttribute: name) else {
            return nil
        }
        let found = Flattened(link: place, destination: destination, attribute: attribute)
        return columns(of: found, in: former) != nil && stays(destination, [attribute]) ? found : nil
    }

    /// Whether an entity's table has its name and these columns until all others are copied.
    private func stays(_ former: Int, _ attributes: [Int]) -> Bool {
        let before = old.entities[former]
        guard let index = match.entity(for: former) else {
            return !new.entities.contains { FoldedName($0.table) == FoldedName(before.table) }
        }
        return new.entities[index].table.hasSameBytes(as: before.table)
            && (before.identity + attributes).allSatisfy { attribute in
                match.place(.attribute, for: attribute, of: index).map { new.entities[index].attributes[$0] }
                    .map {
                        $0.column.hasSameBytes(as: before.attributes[attribute].column)
                            && $0.isStored(like: before.attributes[attribute])
                    }
                    ?? false
            } && new.entities[index].identity.count == before.identity.count
    }

    private mutating func note(_ link: Int, of former: Int, _ index: Int, _ attributes: [Int: Flattened]) {
        let relationship = old.entities[former].relationships[link]
        let destination = old.entities[relationship.destination]
        let taken = attributes.values.filter { $0.link == link }.map(\.attribute)
        let isNamed = destination.identity.allSatisfy {
            destination.attributes[$0].holderValue != nil || taken.contains($0)
        }
        guard isNamed else { return }
        for part in old.both(old.part(.relationship, link, of: former)) {
            takers[part] = "attributes of \(new.entities[index].name)"
        }
        guard match.entity(for: relationship.destination) == nil, relationship.isOwned,
            destination.relationships.indices.allSatisfy({ $0 == relationship.inverse }),
            destination.attributes.indices.allSatisfy({ attribute in
                destination.attributes[attribute].isExtra || destination.attributes[attribute].holderValue != nil
                    || taken.contains(attribute)
            }), destination.extra == nil || new.entities[index].extra != nil
        else { return }
        emptied.insert(relationship.destination)
    }

    // MARK: - Split

    private func splitting(_ index: Int, _ link: String, _ name: String) -> (split: Split, source: Int)? {
        let entity = new.entities[index]
        guard let owner = new.holders.owners[index], !new.isInHierarchy(owner.entity), entity.unique.isEmpty,
            let inverse = new.entities[owner.entity].relationships[owner.relationship].inverse,
            entity.relationships[inverse].name.hasSameBytes(as: link),
            !new.entities[owner.entity].relationships[owner.relationship].isToMany,
            match.entities[owner.entity].relationships[owner.relationship] == nil,
            let former = match.entities[owner.entity].old, !old.isInHierarchy(former),
            !old.entities[former].hasRowKey, stays(former, []),
            let source = old.entities[former].index(ofAttribute: name),
            match.place(.attribute, for: source, of: owner.entity) == nil,
            !new.entities[owner.entity].attributes.contains(where: {
                FoldedName($0.column) == FoldedName(old.entities[former].attributes[source].column)
            }), entity.attributes.allSatisfy({ $0.isOptional || $0.holderValue != nil })
        else { return nil }
        let split = Split(owner: owner.entity, relationship: owner.relationship, formerOwner: former)
        return (split, source)
    }

    /// The condition that a row of the former owner has a value for the object.
    private func condition(_ split: Split) -> String {
        split.sources.values.sorted().map {
            "\(quoted(old.entities[split.formerOwner].attributes[$0].column)) IS NOT NULL"
        }.joined(separator: " OR ")
    }

    private func keys(_ split: Split) -> [String] { sides.old.keyColumns(split.formerOwner).map(\.name) }

    /// The owner's columns of the link to the object, and their values as SQL; nil for another relationship.
    func links(ofOwner owner: Int, _ relationship: Int) -> [String]? {
        guard let split = split.values.first(where: { $0.owner == owner && $0.relationship == relationship }) else {
            return nil
        }
        return keys(split).map { "CASE WHEN \(condition(split)) THEN \(quoted($0)) END" }
    }

    /// The statements that fill the tables of the split entities, while those of the owners have their earlier columns.
    func statements(_ convert: AttributeConversion) -> [String] {
        split.sorted { $0.key < $1.key }.map { index, split in
            let entity = new.entities[index]
            let keys = keys(split).map(quoted)
            var values: [(column: String, value: String)] = []
            for (place, attribute) in entity.attributes.enumerated() {
                if let source = split.sources[place] {
                    let former = old.entities[split.formerOwner].attributes[source]
                    let value = quoted(former.column)
                    values.append(
                        (
                            attribute.column,
                            former.isStored(like: attribute)
                                ? value : "\(conversionFunction)(\(convert(former, attribute)), \(value))"
                        ))
                } else if case .attribute(let name) = attribute.holderValue,
                    let part = new.entities[split.owner].identity.firstIndex(where: {
                        new.entities[split.owner].attributes[$0].name.hasSameBytes(as: name)
                    })
                {
                    values.append((attribute.column, keys[part]))
                }
            }
            let inverse = new.entities[split.owner].relationships[split.relationship].inverse!
            values += zip(sides.new.linkColumns(entity.relationships[inverse]), keys).map { ($0, $1) }
            return "INSERT INTO \(quoted(entity.table)) (\(quotedList(values.map(\.column)))) "
                + "SELECT \(values.map(\.value).joined(separator: ", ")) "
                + "FROM \(quoted(new.entities[split.owner].table)) WHERE \(condition(split))"
        }
    }
}
