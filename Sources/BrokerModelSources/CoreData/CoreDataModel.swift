package import BrokerModel

/// Reads the models that Xcode writes: `.xcdatamodeld`, of which the current version counts, and `.xcdatamodel`.
///
/// The model becomes a `ModelDocument` whose values have the positions of the XML, with a note for each part that was
/// converted, inferred or skipped (`protocol/core-data.md` has the tables).
package enum CoreDataModel {
    /// Whether a path is that of a Core Data model, by its name.
    package static func isModel(_ path: String) -> Bool { ModelFolder.isModel(path) }

    /// - Throws: `ModelError` when there is no XML to read. What is wrong with what the XML says is among
    ///   the document's faults.
    package static func read(_ path: String) throws(ModelError) -> ModelDocument {
        let contents = try ModelFolder(path: path).contents()
        return try read(contents: try ModelFolder.bytes(of: contents), source: contents)
    }

    /// The XML of a `contents` file.
    ///
    /// - Parameter source: its name, for places.
    package static func read(contents: [UInt8], source: String) throws(ModelError) -> ModelDocument {
        let tree = try ElementTree(parsing: contents, source: source)
        return try ModelConversion(tree.root, source: source).document()
    }
}
