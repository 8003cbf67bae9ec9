package import BrokerJSON

/// What a source says of a model, before it is checked: a tree in the model's JSON form, which any source can make.
///
/// ``ModelReader`` reads it and reports faults at the places that the values bear.
package struct ModelDocument: Sendable {
    package var root: ModelValue
    /// The files that the values come from, in the order in which their faults are told.
    package var sources: [String]
    /// What was decided while the tree was made.
    package var notes: [ModelNote]
    /// What was found wrong while the tree was made, which reading tells with its own faults.
    package var faults: [ModelFault]

    package init(root: ModelValue, sources: [String], notes: [ModelNote] = [], faults: [ModelFault] = []) {
        self.root = root
        self.sources = sources
        self.notes = notes
        self.faults = faults
    }

    /// The tree of a JSON text.
    ///
    /// - Parameter source: the file's name for places; empty when faults need not tell it.
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
        // The values point into the document's tape, and do not hold it.
        let root = withExtendedLifetime(document) {
            ModelValue(document.root, lines: LineIndex(of: text), source: source)
        }
        self.init(root: root, sources: [source])
    }
}
