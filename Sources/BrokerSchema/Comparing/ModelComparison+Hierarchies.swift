package import BrokerModel

/// The changes of hierarchies, whose objects share a table, in a changed model.
extension ModelComparison {
    package mutating func compareTable(_ oldIndex: Int, _ newIndex: Int) {
        let (old, new) = (stored.entities[oldIndex], wanted.entities[newIndex])
        let isDefault = old.table.hasSameBytes(as: old.name) && new.table.hasSameBytes(as: new.name)
        guard !old.table.hasSameBytes(as: new.table), !isDefault, (old.parent == nil) == (new.parent == nil) else {
            return
        }
        let words = old.parent == nil ? "stored in the table" : "seen in the view"
        change(
            .migrated, new.name,
            "\(new.name) is \(words) \(old.table) in the store, and in \(new.table) in the model")
    }

    package mutating func compareHierarchy(_ oldIndex: Int, _ newIndex: Int) {
        let (old, new) = (stored.entities[oldIndex], wanted.entities[newIndex])
        let table = stored.table(of: oldIndex)
        let remedy = "keep what it inherits from, or make another entity"
        guard match.tables[newIndex] == stored.topmost(of: oldIndex) else {
            let others = wanted.subentities(of: wanted.topmost(of: newIndex)).filter {
                $0 != newIndex && match.entities[$0].old.map(stored.topmost) == match.tables[newIndex]
            }
            guard let other = others.first, match.tables[newIndex] != nil else {
                return change(
                    .refused, new.name,
                    "\(new.name) lies in the table \(table) with others in the store, and in a table of its own, "
                        + "\(wanted.table(of: newIndex)), in the model", remedy: remedy)
            }
            return change(
                .refused, new.name,
                "\(new.name) lies in the table \(table) in the store, and in one table with "
                    + "\(wanted.entities[other].name) in the model; the rows of two tables are not put together",
                remedy: remedy)
        }
        if populated.contains(oldIndex) {
            change(
                .refused, new.name,
                "\(new.name) is abstract in the model, and the store has objects that are nothing more",
                remedy: "delete them with the model before, or keep it as it was")
        }
        guard old.parent.flatMap(match.entity(for:)) != new.parent || (old.parent == nil) != (new.parent == nil) else {
            return
        }
        let words = [old.parent.map { stored.entities[$0].name }, new.parent.map { wanted.entities[$0].name }].map {
            $0 ?? "nothing"
        }
        let moved =
            table.hasSameBytes(as: wanted.table(of: newIndex))
            ? "" : ", and its table \(table) becomes \(wanted.table(of: newIndex))"
        change(
            .migrated, new.name,
            "\(new.name) inherits from \(words[0]) in the store, and from \(words[1]) in the model\(moved)")
    }

    /// Refuses a model without an entity that has objects in a table that stays: their entity could not be determined
    /// any more.
    package mutating func refuseLosingRows(of index: Int) {
        let name = stored.entities[index].name
        change(
            .refused, name, "\(name) is in the store, but not in the model, and the store has objects of it",
            remedy: "delete them with the model before, \"renamedFrom\" renames it")
    }

    package func obstacle(toRetainingConcreteEntity index: Int) -> String? {
        let topmost = stored.topmost(of: index)
        guard let taker = match.tables.firstIndex(of: topmost), match.entity(for: topmost) == nil else { return nil }
        return "its table is that of \(wanted.entities[wanted.topmost(of: taker)].name) in the model"
    }

    /// Identities are compared with the entities that declare them.
    package func inheritsIdentity(_ oldIndex: Int, _ newIndex: Int) -> Bool {
        guard let old = stored.entities[oldIndex].parent, let new = wanted.entities[newIndex].parent,
            match.entity(for: old) == new
        else { return false }
        return !stored.entities[old].identity.isEmpty && !wanted.entities[new].identity.isEmpty
    }

    /// An identity either is the key of its rows, or is stored beside a row key, which links refer to.
    package mutating func compareRowKey(_ oldIndex: Int, _ newIndex: Int) {
        let (old, new) = (stored.entities[oldIndex], wanted.entities[newIndex])
        guard old.hasRowKey != new.hasRowKey else { return }
        let words = { (hasRowKey: Bool) in hasRowKey ? "its own, beside a key of the store's" : "its whole table's" }
        change(
            .refused, new.name,
            "the identity of \(new.name) is \(words(old.hasRowKey)), in the store, and \(words(new.hasRowKey)) in the model",
            remedy: "have the identity with the same entity as before, topmost or below it")
    }

    /// To-many links have a table of their own, which is neither divided nor merged with another.
    package mutating func compareLinkTables(
        _ place: Int, _ relationship: Relationship, _ oldIndex: Int, _ newPlace: Int, _ newIndex: Int
    ) {
        guard relationship.isToMany else { return }
        let members = wanted.subentities(of: wanted.topmost(of: newIndex)).filter {
            match.entities[$0].old.map(stored.topmost) == stored.topmost(of: oldIndex)
        }
        let targets = Set(members.compactMap { match.place(.relationship, for: place, of: $0) })
        let sources = Set(members.compactMap { match.entities[$0].relationships[newPlace] })
        guard targets.count > 1 || sources.count > 1 else { return }
        let name = "\(wanted.entities[newIndex].name).\(relationship.name)"
        let words = targets.count > 1 ? ("one relationship", "several") : ("one of several relationships", "one")
        change(
            .refused, name, "\(name) is \(words.0) in the store, and \(words.1) in the model",
            remedy: "have it with the same entity as before")
    }
}
