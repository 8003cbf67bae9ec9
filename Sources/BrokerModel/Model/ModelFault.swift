/// The position of a part in the model's document, for faults: a JSON Pointer (RFC 6901), line and column from 1.
package struct ModelPlace: Sendable, Hashable {
    package var pointer: String
    /// The file; empty when there is only one.
    package var source: String
    package var line: Int
    package var column: Int

    package init(pointer: String, source: String = "", line: Int, column: Int) {
        self.pointer = pointer
        self.source = source
        self.line = line
        self.column = column
    }

    /// The position in a model that was made in code.
    package static let unknown = ModelPlace(pointer: "", line: 0, column: 0)
}

/// One fault of a model.
package struct ModelFault: Sendable, Hashable, CustomStringConvertible {
    package let place: ModelPlace
    /// The fault and the remedy.
    package let message: String

    package init(_ message: String, at place: ModelPlace) {
        self.message = message
        self.place = place
    }

    package var description: String {
        let source = place.source.isEmpty ? "" : place.source + ": "
        guard place.line > 0 else { return source + message }
        let pointer = place.pointer.isEmpty ? "" : " (\(place.pointer))"
        return "\(source)line \(place.line), column \(place.column)\(pointer): \(message)"
    }
}

/// A model was refused: all its faults, in the order of the document.
package struct ModelError: Error, Sendable, CustomStringConvertible {
    package let faults: [ModelFault]

    package init(faults: [ModelFault]) {
        self.faults = faults
    }

    package var description: String { faults.map(\.description).joined(separator: "\n") }
}
