import ArgumentParser
import BrokerCommandLine
import BrokerJSON
import BrokerModel
import BrokerModelSources
import BrokerSchema
import BrokerStaging
import BrokerStore
import Foundation

/// What the commands that change a model, and its store with it, have in common.
///
/// The file is changed, then `broker migrate` does the rest: it says what would be done and lost, asks, and does it in one
/// transaction. Where that is refused or declined, the file is put back.
struct ModelEditOptions: ParsableArguments {
    @OptionGroup var connection: ConnectionOptions

    @Flag(help: "Only say what would be changed.")
    var dryRun = false

    @Flag(help: "Do not ask before something is lost. Where no terminal is, this is required for that.")
    var yes = false

    /// What is changed: the model's file, its text if it is there, and the store, which a server may have open.
    private struct Subject {
        let file: String
        let store: String
        let text: Data?
        let model: (document: ModelDocument, plan: StagingPlan)
    }

    /// - Parameter edit: changes the document of the model, which is complete and without faults.
    func run(_ edit: (inout ModelEdit) throws -> Void) async throws {
        let subject = try await subject()
        var changed = ModelEdit(
            document: subject.model.document, model: subject.model.plan.model, store: subject.store)
        try edit(&changed)
        // Faults are those of the edit: the model had none.
        do throws(ModelError) {
            _ = try StagingPlan(ModelReader.read(changed.document))
        } catch {
            throw CommandFailure(
                "The model would not be valid: \(error.faults.map(\.message).joined(separator: "; ")). Nothing was changed."
            )
        }
        let backup = changed.isLoss && !dryRun ? try await backUp(subject.store) : nil
        let (file, text) = (subject.file, Data((changed.document.root.indentedJSON + "\n").utf8))
        do { try text.write(to: URL(filePath: file), options: .atomic) } catch {
            throw CommandFailure("The model cannot be written to \(file): \(error.localizedDescription)")
        }
        func restore() {
            do {
                if let before = subject.text {
                    try before.write(to: URL(filePath: file), options: .atomic)
                } else {
                    try FileManager.default.removeItem(atPath: file)
                }
            } catch {
                Program.report("broker: \(file) could not be put back: \(error.localizedDescription)", .warning)
            }
        }
        do {
            try await migration(changed.isLoss).run()
        } catch {
            if !dryRun, (error as? CommandFailure)?.status == .cannotConnect {
                Program.report("broker: \(file) stays changed, as the store may be; `broker migrate` completes it.")
            } else {
                restore()
                if let backup { try? FileManager.default.removeItem(atPath: backup) }
            }
            throw error
        }
        if dryRun { restore() }
        if let backup { Program.report("broker: the store as it was is \(backup).") }
    }

    /// The model is the one in the file, or else in the store.
    private func subject() async throws -> Subject {
        func made(_ file: String, _ store: String, _ model: LocalModel) throws -> Subject {
            Subject(
                file: file, store: store, text: FileManager.default.contents(atPath: file),
                model: try model.documentAndPlan())
        }
        func single(_ files: [String], _ name: String) throws -> String {
            guard files.count == 1 else {
                throw CommandFailure(
                    .usage, "\(name) has \(files.count) files: change the one that has the part, then `broker migrate`."
                )
            }
            return files[0]
        }
        guard let store = connection.store else {
            let served = try await connection.connected("broker model") { try await $0.migrate(dryRun: true) }
            guard let store = served.storeFile else {
                throw CommandFailure("The server does not name its model's file: change it, then `broker migrate`.")
            }
            let file = try single(served.modelFiles, "The server's model")
            return try made(file, store, .files([file]))
        }
        if !connection.model.isEmpty {
            return try made(single(connection.model, "The model"), store, .files(connection.model))
        }
        guard let found = try connection.storedModel() else {
            throw CommandFailure("There is no store \(store) with a model. Check the path, or give --model.")
        }
        return try made(LocalModel.file(besideStore: store), store, found)
    }

    private func migration(_ isLoss: Bool) throws -> MigrateCommand {
        var arguments = isLoss ? ["--drop", ""] : []
        if dryRun { arguments.append("--dry-run") }
        if yes { arguments.append("--yes") }
        if let store = connection.store {
            arguments += ["--store", store] + connection.model.flatMap { ["--model", $0] }
        } else if let socket = connection.socket {
            arguments += ["--socket", socket]
        }
        return try MigrateCommand.parse(arguments)
    }

    /// Copies the store, or lets the server copy it.
    private func backUp(_ store: String) async throws -> String {
        let stamp = Date.now.formatted(.iso8601.year().month().day().time(includingFractionalSeconds: false))
            .filter { $0.isNumber || $0 == "T" }
        let copy = "\(store).before-\(stamp)"
        if connection.isLocal {
            try Store.copy(store, to: copy)
        } else {
            _ = try await connection.connected("broker model") { try await $0.backUp(to: copy, replacing: false) }
        }
        return copy
    }
}

/// A command that changes a model, and its store with it.
protocol ModelEditCommand: AsyncParsableCommand {
    var options: ModelEditOptions { get }
    func edit(_ edit: inout ModelEdit) throws
}

extension ModelEditCommand {
    func run() async throws { try await options.run(edit) }
}

/// A model's document while a command changes it.
struct ModelEdit {
    private(set) var document: ModelDocument
    let model: Model
    let store: String
    /// Values go, or change; a backup of the store is made before.
    var isLoss = false

    func entity(_ name: String) throws -> Entity {
        if let index = model.index(ofEntity: name) { return model.entities[index] }
        let names = model.entities.map(\.name)
        throw CommandFailure("There is no entity \(name)\(NearMiss.question(name, among: names)).")
    }

    /// The place of a part in the document: an attribute or a relationship.
    func place(_ part: ModelPart) throws -> [String] {
        let entity = try entity(part.entity)
        guard let name = part.property else { return ["entities", entity.name] }
        guard entity.index(ofAttribute: name) != nil || entity.index(ofRelationship: name) != nil else {
            let names = entity.attributeNames + entity.relationshipNames
            throw CommandFailure("\(entity.name) has no \(name)\(NearMiss.question(name, among: names)).")
        }
        for kind in ["attributes", "relationships"] {
            let path = ["entities", entity.name, kind, name]
            if document.root.value(at: path) != nil { return path }
        }
        throw CommandFailure(
            "\(entity.name).\(name) is not written in the model: it is inherited, or Broker completes it.")
    }

    mutating func set(_ path: [String], _ value: ModelValue?) {
        // An attribute may be the name of its type alone.
        let parent = Array(path.dropLast())
        if let short = document.root.value(at: parent)?.string {
            document.root.set(parent, ModelValue(.object([]), at: .unknown))
            document.root.set(parent + ["type"], .text(short))
        }
        document.root.set(path, value)
    }

    /// What inference says of values does not hold any more.
    mutating func dropInferredDescription(at path: [String]) {
        guard let text = document.root.value(at: path + ["description"])?.string,
            ["in all ", "missing or null in "].contains(where: text.hasPrefix)
        else { return }
        set(path + ["description"], .text(String(text.prefix { $0 != ";" })))
    }

    /// Changes the name of a member, which keeps its place.
    mutating func rename(_ path: [String], to name: String) {
        guard let parent = document.root.value(at: Array(path.dropLast())) else { return }
        let members = parent.members.map { member in
            var member = member
            if member.key.hasSameBytes(as: path.last!) { member.key = name }
            return member
        }
        document.root.set(Array(path.dropLast()), ModelValue(.object(members), at: .unknown))
    }

    mutating func extend(by changes: ModelExtension) { document = changes.applied(to: document) }

    /// Replaces a name in a text or in arrays of texts.
    mutating func replace(_ old: String, by new: String, at path: [String]) {
        guard let value = document.root.value(at: path) else { return }
        document.root.set(path, value.replacing(old, by: new))
    }
}

extension ModelValue {
    fileprivate func replacing(_ old: String, by new: String) -> ModelValue {
        switch content {
        case .string(let text): text.hasSameBytes(as: old) ? .text(new) : self
        case .array(let elements): ModelValue(.array(elements.map { $0.replacing(old, by: new) }), at: .unknown)
        default: self
        }
    }
}

/// `Entity`, or `Entity.part`.
struct ModelPart: ExpressibleByArgument {
    let entity: String
    let property: String?

    init?(argument: String) {
        let parts = argument.split(separator: ".", maxSplits: 1).map(String.init)
        guard let first = parts.first else { return nil }
        (entity, property) = (first, parts.count > 1 ? parts[1] : nil)
    }

    /// - Throws: for an entity alone.
    func requiringProperty() throws -> String {
        guard let property else { throw ValidationError("Name a part of \(entity): \(entity).part.") }
        return property
    }
}

struct ModelSetKeyCommand: ModelEditCommand {
    static let configuration = CommandConfiguration(
        commandName: "set-key", abstract: "Gives the objects of an entity another identity.",
        discussion: """
            The values must be there and distinct; else those that repeat are listed, and nothing is changed. Links follow. \
            For example: broker model set-key --store app.sqlite Country alpha_3
            """)

    @OptionGroup var options: ModelEditOptions
    @Argument(help: "The entity.") var entity: String
    @Argument(help: "The attribute, or several with commas between them.") var key: String

    func edit(_ edit: inout ModelEdit) throws {
        let entity = try edit.entity(entity)
        let names = key.split(separator: ",").map(String.init)
        for name in names { _ = try edit.place(ModelPart(argument: "\(entity.name).\(name)")!) }
        let path = try edit.place(ModelPart(argument: entity.name)!)
        edit.set(path + ["identity"], names.count == 1 ? .text(names[0]) : ModelValue(names))
        edit.set(path + ["identityGuessed"], nil)
        guard entity.identity.count == 1 else { return }
        edit.set(path + ["formerIdentity"], .text(entity.attributes[entity.identity[0]].name))
    }
}

struct ModelRenameCommand: ModelEditCommand {
    static let configuration = CommandConfiguration(
        commandName: "rename", abstract: "Renames an entity, an attribute or a relationship, and its table or column.",
        discussion: """
            Records keep their keys. For example: broker model rename --store app.sqlite Person.nick nickname
            """)

    @OptionGroup var options: ModelEditOptions
    @Argument(help: "Entity, or Entity.part.") var part: ModelPart
    @Argument(help: "The new name.") var name: String

    func edit(_ edit: inout ModelEdit) throws {
        let path = try edit.place(part)
        edit.set(path + ["renamedFrom"], .text(path.last!))
        guard let property = part.property else { return renameEntity(path, &edit) }
        let entity = try edit.entity(part.entity)
        if let attribute = entity.index(ofAttribute: property) {
            keepKeys(entity.attributes[attribute].keyPaths, at: path, &edit)
        } else if let relationship = entity.index(ofRelationship: property) {
            keepKeys(entity.relationships[relationship].keyPaths, at: path, &edit)
        }
        for field in ["identity", "unique", "indexes", "modified", "formerIdentity"] {
            edit.replace(property, by: name, at: ["entities", entity.name, field])
        }
        for other in edit.model.entities {
            for index in other.relationshipIndices
            where edit.model.inverse(of: other.relationships[index])?.name == property {
                guard edit.model.entities[other.relationships[index].destination].name == entity.name else {
                    continue
                }
                edit.replace(
                    property, by: name,
                    at: ["entities", other.name, "relationships", other.relationships[index].name, "inverse"])
            }
        }
        edit.rename(path, to: name)
    }

    private func renameEntity(_ path: [String], _ edit: inout ModelEdit) {
        for entity in edit.model.entities {
            edit.replace(part.entity, by: name, at: ["entities", entity.name, "parent"])
            for index in entity.relationshipIndices {
                edit.replace(
                    part.entity, by: name,
                    at: ["entities", entity.name, "relationships", entity.relationships[index].name, "entity"])
            }
        }
        for mapping in edit.model.mappings {
            edit.replace(part.entity, by: name, at: ["mappings", mapping.name, "entity"])
        }
        edit.rename(path, to: name)
    }

    /// The keys are written: they are those of the earlier name.
    private func keepKeys(_ paths: [[String]], at path: [String], _ edit: inout ModelEdit) {
        guard edit.document.root.value(at: path + ["key"]) == nil, !paths.isEmpty else { return }
        edit.set(path + ["key"], KeyPathForm.value(paths))
    }
}

struct ModelRetypeCommand: ModelEditCommand {
    static let configuration = CommandConfiguration(
        commandName: "retype", abstract: "Gives an attribute another type, and converts its values.",
        discussion: """
            A value becomes what a record with it would store. One that the new type does not hold exactly goes to _extra, and what \
            _extra has under the key is taken where it fits. Where a type holds less than the one before, the store is copied first. \
            For example: broker model retype --store app.sqlite Signup.amount decimal
            """)

    @OptionGroup var options: ModelEditOptions
    @Argument(help: "Entity.attribute.") var part: ModelPart
    @Argument(
        help: "The type: integer64, decimal, double, string, boolean, date, calendarDate, transformable and others.")
    var type: String
    @Option(help: "Of a date: the form of its texts, such as dd.MM.yyyy.") var format: String?

    func edit(_ edit: inout ModelEdit) throws {
        let name = try part.requiringProperty()
        let path = try edit.place(part)
        guard path[2] == "attributes" else {
            throw CommandFailure("\(name) is a relationship, and has no type.")
        }
        let entity = try edit.entity(part.entity)
        let former = entity.attributes[entity.index(ofAttribute: name)!].type
        guard let type = AttributeType(rawValue: type) else {
            let types = AttributeType.allCases.map(\.rawValue)
            throw CommandFailure("There is no type \(self.type)\(NearMiss.question(self.type, among: types)).")
        }
        switch type == former ? .sameForm : type.change(from: former) {
        case .sameForm, .converted: break
        case .convertedIfExact, nil:
            edit.isLoss = true
            if entity.extra == nil {
                edit.set(Array(path.prefix(2)) + ["extra"], ModelValue(.bool(true), at: .unknown))
            }
        }
        edit.set(path + ["type"], .text(type.rawValue))
        edit.dropInferredDescription(at: path)
        var others = type.isDate ? [] : ["format", "formats", "timeZone", "precision"]
        if type != .decimal { others += type == .date ? ["scale"] : ["scale", "storage"] }
        if format != nil { others.append("formats") }
        for field in others { edit.set(path + [field], nil) }
        if let format { edit.set(path + ["format"], .text(format)) }
    }
}

struct ModelDropCommand: ModelEditCommand {
    static let configuration = CommandConfiguration(
        commandName: "drop",
        abstract: "Takes an attribute, a relationship or an entity out of the model and the store.",
        discussion: """
            Its values are lost. A copy of the store is made before, and named. Records may still have the keys of an attribute: \
            they are ignored. For example: broker model drop --store app.sqlite Person.shoeSize
            """)

    @OptionGroup var options: ModelEditOptions
    @Argument(help: "Entity, or Entity.part.") var part: ModelPart

    func edit(_ edit: inout ModelEdit) throws {
        edit.isLoss = true
        let path = try edit.place(part)
        if let property = part.property {
            let entity = try edit.entity(part.entity)
            let keys =
                entity.index(ofAttribute: property).map { entity.attributes[$0].recordPaths }
                ?? entity.index(ofRelationship: property).map { entity.relationships[$0].keyPaths } ?? []
            edit.ignore(keys, of: entity)
        }
        edit.set(path, nil)
    }
}

struct ModelIgnoreCommand: ModelEditCommand {
    static let configuration = CommandConfiguration(
        commandName: "ignore", abstract: "Ignores a key of records from now on.",
        discussion: "What is stored of it stays. For example: broker model ignore --store app.sqlite Person debug.trace"
    )

    @OptionGroup var options: ModelEditOptions
    @Argument(help: "The entity.") var entity: String
    @Argument(help: "Keys, with dots between those of a path.") var keys: [String]

    func edit(_ edit: inout ModelEdit) throws {
        // A key with a dot may be a path, or one key.
        let paths = keys.flatMap { $0.contains(".") ? [$0.split(separator: ".").map(String.init), [$0]] : [[$0]] }
        edit.ignore(paths, of: try edit.entity(entity))
    }
}

extension ModelEdit {
    fileprivate mutating func ignore(_ paths: [[String]], of entity: Entity) {
        let added = paths.filter { !entity.ignoredPaths.contains($0) }
        guard !added.isEmpty else { return }
        set(
            ["entities", entity.name, "ignore"],
            KeyPathForm.list(entity.ignoredPaths + added))
    }
}

struct ModelDescribeCommand: ModelEditCommand {
    static let configuration = CommandConfiguration(
        commandName: "describe", abstract: "Says what an entity, an attribute or a relationship is, for people.",
        discussion: "For example: broker model describe --store app.sqlite Person.nick 'as the person wrote it'")

    @OptionGroup var options: ModelEditOptions
    @Argument(help: "Entity, or Entity.part.") var part: ModelPart
    @Argument(help: "The description; empty takes it away.") var text: String

    func edit(_ edit: inout ModelEdit) throws {
        let path = try edit.place(part)
        edit.set(path + ["description"], text.isEmpty ? nil : .text(text))
    }
}

struct ModelPromoteCommand: ModelEditCommand {
    static let configuration = CommandConfiguration(
        commandName: "promote", abstract: "Makes attributes of keys that only _extra has.",
        discussion: """
            Their types are those that all values fit. A load into a model that evolves does it at its end, and a server at a reload. \
            For example: broker model promote --store app.sqlite Person nick
            """)

    @OptionGroup var options: ModelEditOptions
    @Argument(help: "The entity.") var entity: String
    @Argument(help: "The attributes; none are all.") var attributes: [String] = []

    func edit(_ edit: inout ModelEdit) throws {
        _ = try edit.entity(entity)
        var wanted = Set(attributes)
        let store = edit.store
        let changes = try ModelExtension(promotingIn: edit.model) { entity, attribute in
            guard entity == self.entity, attributes.isEmpty || attributes.contains(attribute) else { return false }
            wanted.remove(attribute)
            return true
        } of: {
            try Store.forEachExtra(path: store, $0)
        }
        guard !changes.isEmpty, wanted.isEmpty else {
            let names = wanted.isEmpty ? "keys without an attribute" : wanted.sorted().joined(separator: ", ")
            throw CommandFailure("_extra of \(entity) has no \(names). Nothing was changed.")
        }
        edit.extend(by: changes)
    }
}
