import BrokerJSON

/// What one reading of a model has found wrong so far. Belongs to one reading on one thread.
final class ModelFaultLog {
    private let lines: LineIndex
    private var found: [(offset: Int, fault: ModelFault)] = []

    init(of text: JSONText) {
        lines = LineIndex(of: text)
    }

    var isEmpty: Bool { found.isEmpty }

    func report(_ message: String, at node: ModelNode) {
        found.append((node.value.offset, ModelFault(message, at: place(of: node))))
    }

    func place(of node: ModelNode) -> ModelPlace {
        let (line, column) = lines.position(of: node.value.offset)
        return ModelPlace(pointer: node.pointer, line: line, column: column)
    }

    /// By place; faults of one place in the order in which they were found.
    var inDocumentOrder: [ModelFault] {
        found.enumerated()
            .sorted { ($0.element.offset, $0.offset) < ($1.element.offset, $1.offset) }
            .map(\.element.fault)
    }
}

/// Where the lines of a text begin. It answers as `JSONPosition` does, without reading the text anew for every place.
struct LineIndex {
    /// Ascending; the first is 0.
    private let starts: [Int]

    init(of text: JSONText) {
        var starts = [0]
        for (offset, byte) in text.bytes.enumerated() where byte == UInt8(ascii: "\n") { starts.append(offset + 1) }
        self.starts = starts
    }

    /// Both count from 1, columns in bytes.
    func position(of offset: Int) -> (line: Int, column: Int) {
        var low = 0
        var high = starts.count
        while high - low > 1 {
            let middle = (low + high) / 2
            if starts[middle] <= offset { low = middle } else { high = middle }
        }
        return (low + 1, offset - starts[low] + 1)
    }
}
