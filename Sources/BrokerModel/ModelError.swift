/// One thing that is wrong with a model.
package struct ModelFault: Sendable, Equatable, CustomStringConvertible {
    package let place: ModelPlace
    /// What is wrong and the remedy.
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

/// A model was refused, with everything that is wrong with it, in the order of the document.
package struct ModelError: Error, Sendable, CustomStringConvertible {
    package let faults: [ModelFault]

    package init(faults: [ModelFault]) {
        self.faults = faults
    }

    package var description: String { faults.map(\.description).joined(separator: "\n") }
}
