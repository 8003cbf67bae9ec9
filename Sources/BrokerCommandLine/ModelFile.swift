internal import BrokerModelSources
internal import BrokerJSON
package import BrokerModel
package import BrokerStaging
internal import Glibc

/// The files of one model, each of which changes the model of the previous ones.
package struct ModelFile {
    /// At least one; `-` is standard input.
    private let paths: [String]

    package init(_ paths: [String]) { self.paths = paths }

    package var name: String { paths.joined(separator: " with ") }

    /// The document of all files, with the notes about decisions.
    ///
    /// - Throws: `ModelError` with the faults of every file when one cannot be read at all.
    package func document() throws(ModelError) -> ModelDocument {
        var merged: ModelDocument?
        var faults: [ModelFault] = []
        for path in paths {
            do throws(ModelError) {
                let document = try document(of: path)
                merged = merged?.merged(with: document) ?? document
            } catch {
                faults += error.faults
            }
        }
        guard faults.isEmpty, let merged else { throw ModelError(faults: faults) }
        return merged
    }

    /// One of several files has its name in faults; for a single file the caller adds it.
    private func document(of path: String) throws(ModelError) -> ModelDocument {
        if path != "-", Self.isDatabase(path) { return try databaseModel(path) }
        if CoreDataModel.isModel(path) { return try CoreDataModel.read(path) }
        let text: JSONText
        do throws(CommandFailure) {
            text = try JSONText.file(path, limit: ModelLimits.largestFile, isRegular: true)
        } catch {
            throw ModelError(faults: [ModelFault(error.description, at: .unknown)])
        }
        guard text.count <= ModelLimits.largestFile else {
            throw ModelError(faults: [ModelFault("\(path): \(ModelLimits.fileFault).", at: .unknown)])
        }
        return try ModelDocument(parsing: text, source: paths.count > 1 ? path : "")
    }

    /// Decides by its first bytes.
    private static func isDatabase(_ path: String) -> Bool {
        guard let descriptor = try? RegularFile.open(path) else { return false }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: DatabaseModel.magic.count)
        return Glibc.read(descriptor, &bytes, bytes.count) == bytes.count && bytes == DatabaseModel.magic
    }

    private func databaseModel(_ path: String) throws(ModelError) -> ModelDocument {
        let text: String
        do throws(DatabaseModel.Failure) {
            text = try DatabaseModel.modelText(ofDatabaseAt: path)
        } catch {
            throw ModelError(faults: [ModelFault(error.description, at: .unknown)])
        }
        return try ModelDocument(parsing: JSONText(copying: Array(text.utf8)), source: paths.count > 1 ? path : "")
    }

    // MARK: - For starting

    /// The document of all files, checked.
    package func read() throws(ModelError) -> (document: ModelDocument, plan: StagingPlan) {
        let document = try document()
        let plan = try StagingPlan(try ModelReader.read(document))
        warn(of: plan.model)
        return (document, plan)
    }

    /// - Throws: one line: the first fault, and the number of the others.
    package func plan() throws(CommandFailure) -> StagingPlan {
        do throws(ModelError) {
            return try read().plan
        } catch {
            if let refusal = Self.refusal(error.faults) { throw refusal }
            let more = error.faults.count - 1
            let arguments = ([paths[0]] + paths.dropFirst().map { "--model \($0)" }).joined(separator: " ")
            throw CommandFailure(
                "The model \(name) is wrong: \(error.faults.first.map(\.description) ?? "")"
                    + (more > 0 ? " (\(more) more: `broker model check \(arguments)` lists them.)" : ""))
        }
    }

    /// The same, with every fault on standard error before the one line.
    package func planOrComplain() throws(CommandFailure) -> StagingPlan { try readOrComplain().plan }

    /// The document of all files, checked; or every fault on standard error.
    package func readOrComplain() throws(CommandFailure) -> (document: ModelDocument, plan: StagingPlan) {
        do throws(ModelError) {
            return try read()
        } catch {
            if let refusal = Self.refusal(error.faults) { throw refusal }
            for fault in error.faults {
                let file = fault.place.source.isEmpty && fault.place.line > 0 ? "\(name): " : ""
                Program.report("\(file)\(fault)\(fault.page.map { " (\($0))" } ?? "")")
            }
            throw CommandFailure(
                "\(name) is no model that can be used: \(Program.counted(error.faults.count, "fault")).")
        }
    }

    /// A file that cannot be read at all has one fault and no line; that fault is enough.
    private static func refusal(_ faults: [ModelFault]) -> CommandFailure? {
        faults.count == 1 && faults[0].place.line == 0 ? CommandFailure("\(faults[0])") : nil
    }

    /// Warns of the entities of a Core Data model that nothing identifies. A model that was written for Broker means it.
    private func warn(of model: Model) {
        guard paths.contains(where: { $0 != "-" && CoreDataModel.isModel($0) }) else { return }
        let names = model.entities.indices.filter { index in
            let entity = model.entities[index]
            return entity.identity.isEmpty && !entity.isAbstract && model.holders.owners[index] == nil
        }.map { model.entities[$0].name }
        guard !names.isEmpty else { return }
        Program.report(
            "broker: warning: nothing identifies the objects of \(names.joined(separator: ", ")), so each import adds its "
                + "records again; give \"identity\" in a further --model", .warning)
    }
}
