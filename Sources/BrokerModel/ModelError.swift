/// One thing that is wrong with a model.
public struct ModelFault: Sendable, Equatable, CustomStringConvertible {
    public let place: ModelPlace
    /// What is wrong and the remedy.
    public let message: String

    public init(_ message: String, at place: ModelPlace) {
        self.message = message
        self.place = place
    }

    public var description: String {
        let source = place.source.isEmpty ? "" : place.source + ": "
        guard place.line > 0 else { return source + message }
        let pointer = place.pointer.isEmpty ? "" : " (\(place.pointer))"
        return "\(source)line \(place.line), column \(place.column)\(pointer): \(message)"
    }
}

/// A model was refused, with everything that is wrong with it, in the order of the document.
public struct ModelError: Error, Sendable, CustomStringConvertible {
    public let faults: [ModelFault]

    public init(faults: [ModelFault]) {
        self.faults = faults
    }

    public var description: String { faults.map(\.description).joined(separator: "\n") }
}
