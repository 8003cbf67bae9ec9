package import BrokerJSON

/// A source's description of a model, before it is checked: a tree in the model's JSON form, which any source can make.
///
/// ``ModelReader`` reads it and reports faults at the positions of the values.
package struct ModelDocument: Sendable {
    package var root: ModelValue
    /// The files of the values, in the order in which their faults are reported.
    package var sources: [String]
    /// The decisions that were made while the tree was built.
    package var notes: [ModelNote]
    /// The faults that were found while the tree was built; the reader reports them with its own.
    package var faults: [ModelFault]

    package init(root: ModelValue, sources: [String], notes: [ModelNote] = [], faults: [ModelFault] = []) {
        self.root = root
        self.sources = sources
        self.notes = notes
        self.faults = faults
    }

    /// The tree of a JSON text.
    ///
    /// - Parameter source: the file's name for positions; empty when faults need no file name.
    /// - Throws: ``ModelError`` with one fault when the text is no JSON.
    package init(parsing text: JSONText, source: String = "") throws(ModelError) {
        let document: JSONDocument
        do {
            document = try JSONDocument(parsing: text)
        } catch {
            let place = ModelPlace(
                pointer: "", source: source, line: error.position.line, column: error.position.column)
            throw ModelError(faults: [ModelFault("the model is not JSON: \(error.reason)", at: place)])
        }
        // The values point into the document's tape, and do not retain it.
        let root = withExtendedLifetime(document) {
            ModelValue(document.root, lines: LineIndex(of: text), source: source)
        }
        self.init(root: root, sources: [source])
    }
}
