import ArgumentParser
import BrokerCommandLine
import BrokerJSON
import BrokerModel

struct ModelFlattenCommand: ModelEditCommand {
    static let configuration = CommandConfiguration(
        commandName: "flatten",
        abstract: "Puts the attributes of the object that a relationship leads to into its owner.",
        discussion: """
            Columns get the values of the objects. A table of owned objects goes; of other objects, the table stays, and a copy of \
            their values is made in each row that leads to them. For example: broker model flatten --store app.sqlite Person.address
            """)

    @OptionGroup var options: ModelEditOptions
    @Argument(help: "Entity.relationship, to one object.") var part: ModelPart

    func edit(_ edit: inout ModelEdit) throws {
        let name = try part.requiringProperty()
        let path = try edit.place(part)
        let entity = try edit.entity(part.entity)
        guard let place = entity.index(ofRelationship: name), !entity.relationships[place].isToMany else {
            throw CommandFailure("\(entity.name).\(name) does not lead to one object: only that can be flattened.")
        }
        let relationship = entity.relationships[place]
        let destination = edit.model.entities[relationship.destination]
        try requireAlone(relationship, entity, destination)
        for index in destination.attributeIndices where !destination.attributes[index].isExtra {
            let attribute = destination.attributes[index]
            guard attribute.holderValue == nil else { continue }
            let new = "\(name)_\(attribute.name)"
            guard entity.attributeNames.allSatisfy({ $0 != new }),
                entity.relationshipNames.allSatisfy({ $0 != new })
            else {
                throw CommandFailure("\(entity.name) has \(new) already: rename that first.")
            }
            let target = ["entities", entity.name, "attributes", new]
            edit.copyAttribute(["entities", destination.name, "attributes", attribute.name], to: target)
            let paths = relationship.keyPaths.flatMap { link in attribute.recordPaths.map { link + $0 } }
            edit.set(target + ["key"], KeyPathForm.value(paths))
            edit.set(target + ["renamedFrom"], .text("\(name).\(attribute.name)"))
        }
        if destination.extra != nil, entity.extra == nil {
            edit.set(["entities", entity.name, "extra"], ModelValue(.bool(true), at: .unknown))
        }
        edit.set(path, nil)
        if relationship.isOwned { edit.set(["entities", destination.name], nil) }
    }

    private func requireAlone(_ relationship: Relationship, _ entity: Entity, _ destination: Entity) throws {
        let others = destination.relationshipIndices.filter { $0 != relationship.inverse }
        guard others.isEmpty || !relationship.isOwned else {
            let names = others.map { "\(destination.name).\(destination.relationships[$0].name)" }
            throw CommandFailure(
                "\(names.joined(separator: ", ")) would be lost: flatten or drop that first. Nothing was changed.")
        }
        if let inverse = relationship.inverse, !relationship.isOwned {
            throw CommandFailure(
                "\(destination.name).\(destination.relationships[inverse].name) has the same links: drop that first. Nothing was changed."
            )
        }
        if !entity.isAbstract, entity.parent == nil, destination.parent == nil { return }
        throw CommandFailure(
            "\(entity.name) or \(destination.name) inherits: that is not flattened. Nothing was changed.")
    }
}

struct ModelSplitCommand: ModelEditCommand {
    static let configuration = CommandConfiguration(
        commandName: "split", abstract: "Makes an owned object, in a table of its own, of the attributes below a key.",
        discussion: """
            Rows with one of the values get an object. For example, of address_city and address_zip, whose keys are address.city and \
            address.zip: broker model split --store app.sqlite Person.address
            """)

    @OptionGroup var options: ModelEditOptions
    @Argument(help: "Entity.key: the key in records, which becomes the name of the relationship.") var part: ModelPart
    @Option(help: "The name of the new entity; its default is the key, with a capital.") var entity: String?

    func edit(_ edit: inout ModelEdit) throws {
        let key = try part.requiringProperty()
        let owner = try edit.entity(part.entity)
        let moved = owner.attributeIndices.map { owner.attributes[$0] }.filter { attribute in
            !attribute.keyPaths.isEmpty && attribute.keyPaths.allSatisfy { $0.count > 1 && $0[0] == key }
        }
        guard !moved.isEmpty else {
            let keys = Set(owner.attributes.flatMap(\.keyPaths).filter { $0.count > 1 }.map { $0[0] }).sorted()
            throw CommandFailure(
                "No attribute of \(owner.name) has a key below \(key)\(NearMiss.question(key, among: keys)).")
        }
        try check(moved, of: owner, key)
        let name = try newEntity(key, owner, edit.model)
        if owner.extra != nil { edit.set(["entities", name, "extra"], ModelValue(.bool(true), at: .unknown)) }
        for attribute in moved {
            let source = ["entities", owner.name, "attributes", attribute.name]
            guard edit.document.root.value(at: source) != nil else {
                throw CommandFailure("\(owner.name).\(attribute.name) is inherited: split it there.")
            }
            let paths = attribute.keyPaths.map { Array($0.dropFirst()) }
            let plain = paths[0].joined(separator: "_")
            let target = [
                "entities", name, "attributes", moved.contains { $0.name == plain } ? attribute.name : plain,
            ]
            edit.copyAttribute(source, to: target)
            edit.setKey(paths, at: target)
            let link = owner.name.prefix(1).lowercased() + owner.name.dropFirst()
            edit.set(target + ["renamedFrom"], .text("\(link).\(attribute.name)"))
            edit.set(source, nil)
        }
        let link = ["entities", owner.name, "relationships", key]
        edit.set(link + ["entity"], .text(name))
        edit.set(link + ["owned"], ModelValue(.bool(true), at: .unknown))
        edit.setKey([[key]], at: link)
    }

    private func check(_ moved: [Attribute], of owner: Entity, _ key: String) throws {
        guard !owner.hasRowKey else {
            throw CommandFailure(
                "\(owner.name) has no identity, by which objects would be owned: `broker model set-key` first."
            )
        }
        guard owner.parent == nil, !owner.isAbstract else {
            throw CommandFailure("\(owner.name) inherits: that is not split. Nothing was changed.")
        }
        guard owner.index(ofAttribute: key) == nil, owner.index(ofRelationship: key) == nil else {
            throw CommandFailure("\(owner.name) has \(key) already: rename that first.")
        }
        let names = Set(moved.map(\.name))
        let lists = ([owner.identity] + owner.unique + owner.indexes).joined().map { owner.attributes[$0].name }
        let used = (lists + [owner.modified.map { owner.attributes[$0].name }].compactMap { $0 }).filter(names.contains)
        guard used.isEmpty else {
            throw CommandFailure(
                "\(Set(used).sorted().joined(separator: ", ")) is in the identity, a unique list, an index or `modified` of \(owner.name): take it out of there first."
            )
        }
    }

    private func newEntity(_ key: String, _ owner: Entity, _ model: Model) throws -> String {
        let plain = key.prefix(1).uppercased() + key.dropFirst()
        let name = entity ?? (model.index(ofEntity: plain) == nil ? plain : owner.name + plain)
        guard model.index(ofEntity: name) == nil else {
            throw CommandFailure("There is an entity \(name) already: give another name with --entity.")
        }
        return name
    }
}

extension ModelEdit {
    /// Copies an attribute to a place where there is none, without what holds only where each object has a value of its own.
    fileprivate mutating func copyAttribute(_ path: [String], to target: [String]) {
        guard let value = document.root.value(at: path) else { return }
        if let short = value.string { set(target + ["type"], .text(short)) } else { set(target, value) }
        for field in ["optional", "unique", "default", "defaultWhenMissing"] { set(target + [field], nil) }
        dropInferredDescription(at: target)
    }

    /// Writes the keys, where they do not follow from the name.
    fileprivate mutating func setKey(_ paths: [[String]], at path: [String]) {
        let isImplied = document.root.value(at: ["keyStyle"]) == nil && paths == [[path.last!]]
        set(path + ["key"], isImplied ? nil : KeyPathForm.value(paths))
    }
}
