/// The faults that one reading of a model has found so far. Belongs to one reading on one thread.
final class ModelFaultLog {
    /// The index of each source.
    private let ranks: [String: Int]
    private var found: [ModelFault]

    init(of document: ModelDocument) {
        ranks = Dictionary(
            document.sources.enumerated().map { ($0.element, $0.offset) }, uniquingKeysWith: { first, _ in first })
        found = document.faults
    }

    var isEmpty: Bool { found.isEmpty }

    func report(_ message: String, at node: ModelNode) {
        found.append(ModelFault(message, at: place(of: node)))
    }

    func place(of node: ModelNode) -> ModelPlace {
        let place = node.value.place
        return ModelPlace(pointer: node.pointer, source: place.source, line: place.line, column: place.column)
    }

    /// By position; faults of one position in the order in which they were found.
    var inDocumentOrder: [ModelFault] {
        found.enumerated()
            .sorted { order(of: $0.element.place, $0.offset) < order(of: $1.element.place, $1.offset) }
            .map(\.element)
    }

    private func order(of place: ModelPlace, _ index: Int) -> (Int, Int, Int, Int) {
        (ranks[place.source] ?? ranks.count, place.line, place.column, index)
    }
}
