package import BrokerModel
internal import Foundation

/// Reads the models that Xcode writes: `.xcdatamodeld`, of which the current version counts, and `.xcdatamodel`.
///
/// The model becomes a `ModelDocument` whose values have the positions of the XML, with a note for each part that was
/// converted, inferred or skipped (`protocol/core-data.md` has the rules).
package enum CoreDataModel {
    /// Whether a path is that of a Core Data model, by its name.
    package static func isModel(_ path: String) -> Bool {
        let name = ModelFolder.trimmed(path)
        return [".xcdatamodeld", ".xcdatamodel", ".momd", ".mom"].contains { name.hasSuffix($0) }
    }

    /// - Throws: `ModelError` when there is no XML to read. What is wrong with what the XML says is among
    ///   the document's faults.
    package static func read(_ path: String) throws(ModelError) -> ModelDocument {
        let contents = try ModelFolder(path: path).contents()
        return try read(contents: try ModelFolder.bytes(of: contents), source: contents)
    }

    /// The XML of a `contents` file.
    package static func read(contents: [UInt8], source: String) throws(ModelError) -> ModelDocument {
        try ModelConversion(ElementReader.root(of: contents, source: source), source: source).document()
    }
}

/// Finds the XML of a model in the folders that Xcode calls a file: `.xcdatamodeld` with its versions, `.xcdatamodel`
/// with its `contents`.
struct ModelFolder {
    let path: String

    /// The path of the `contents` of the model, or of the current version of several.
    ///
    /// - Throws: `ModelError` with one fault.
    func contents() throws(ModelError) -> String {
        let path = Self.trimmed(path)
        if path.hasSuffix(".momd") || path.hasSuffix(".mom") {
            throw fault("this is a compiled model; give the .xcdatamodeld that it was compiled from")
        }
        guard let isFolder = Self.isFolder(path) else { throw fault("there is no such model; check the path") }
        guard isFolder else {
            throw fault(
                "this is a file, and a Core Data model is a folder, as Xcode keeps it in the project; "
                    + "copy the whole folder")
        }
        return try Self.contents(of: path.hasSuffix(".xcdatamodeld") ? currentVersion(of: path) : path)
    }

    /// For a file that is too large, only one byte more than the limit is read.
    ///
    /// - Throws: `ModelError` with one fault.
    static func bytes(of path: String) throws(ModelError) -> [UInt8] {
        do throws(RegularFile.Refusal) {
            return try RegularFile.bytes(of: path, limit: ModelLimits.largestFile)
        } catch {
            throw ModelFolder(path: path).fault("the file \(error.reason)")
        }
    }

    fileprivate static func trimmed(_ path: String) -> String {
        var path = path
        while path.count > 1, path.hasSuffix("/") { path.removeLast() }
        return path
    }

    /// Nil when there is nothing at the path.
    private static func isFolder(_ path: String) -> Bool? {
        var isFolder: ObjCBool = false
        return FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) ? isFolder.boolValue : nil
    }

    private static func contents(of model: String) throws(ModelError) -> String {
        let contents = model + "/contents"
        let folder = ModelFolder(path: model)
        if isFolder(contents) == false { return contents }
        if FileManager.default.fileExists(atPath: model + "/elements") {
            throw folder.fault(
                "the model is in the old binary format of Xcode 3 (elements and layout, without contents); "
                    + "open it in a newer Xcode and save it again")
        }
        throw folder.fault("the model has no contents, the XML that Xcode keeps in this folder; copy the whole folder")
    }

    private func fault(_ message: String) -> ModelError {
        let place = ModelPlace(pointer: "", source: path, line: 0, column: 0)
        return ModelError(faults: [ModelFault(message, at: place)])
    }

    // MARK: - Versions

    /// The folder of the current version.
    private func currentVersion(of path: String) throws(ModelError) -> String {
        let versions: [String]
        do {
            versions = try FileManager.default.contentsOfDirectory(atPath: path)
                .filter { $0.hasSuffix(".xcdatamodel") }.sorted()
        } catch {
            throw fault("the folder cannot be read: \((error as NSError).localizedDescription)")
        }
        guard let first = versions.first else {
            throw fault("there is no version (.xcdatamodel) in this folder; copy the whole folder")
        }
        guard let current = try namedVersion(in: path) else {
            guard versions.count == 1 else {
                throw fault(
                    "there are \(versions.count) versions (\(versions.joined(separator: ", "))) and no "
                        + ".xccurrentversion that says which is current; name one of them: \(path)/\(first)")
            }
            return "\(path)/\(first)"
        }
        guard versions.contains(where: { $0.hasSameBytes(as: current) }) else {
            throw fault(
                "the current version is to be \"\(current)\", and there is none; there are "
                    + versions.joined(separator: ", ") + ": set the current version in Xcode, or name one of them")
        }
        return "\(path)/\(current)"
    }

    /// The version that `.xccurrentversion` names; nil when there is no such file.
    private func namedVersion(in path: String) throws(ModelError) -> String? {
        let file = path + "/.xccurrentversion"
        guard FileManager.default.fileExists(atPath: file) else { return nil }
        let bytes = try Self.bytes(of: file)
        let plist = ModelFolder(path: file)
        guard bytes.count <= Self.largestVersionFile,
            let content = try? PropertyListSerialization.propertyList(from: Data(bytes), format: nil)
        else {
            throw plist.fault("this is no property list; set the current version in Xcode, or delete the file")
        }
        guard let name = (content as? [String: Any])?["_XCCurrentVersionName"] as? String, !name.isEmpty else {
            throw plist.fault(
                "the property list has no _XCCurrentVersionName; set the current version in Xcode, or delete the file")
        }
        return name
    }

    /// Bytes: the name of a file and what is around it.
    private static let largestVersionFile = 64 << 10
}
