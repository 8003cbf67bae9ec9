internal import BrokerJSON
internal import BrokerModel

/// JSON Pointers (RFC 6901) of values, found by their offsets in one walk over the document.
///
/// Only faults need paths, so staging stores offsets and builds no other paths.
struct ValuePaths {
    private let document: JSONDocument

    init(in document: JSONDocument) { self.document = document }

    /// Returns the fault with the path of the value at that offset.
    static func located(_ fault: Fault, at offset: Int, in document: JSONDocument) -> Fault {
        fault.at(ValuePaths(in: document).paths(of: [offset]).first)
    }

    /// - Parameter offsets: ascending. An offset at which no value begins gets the path of the value around it.
    func paths(of offsets: [Int]) -> [String] {
        var walk = Walk(offsets: offsets)
        walk.visit(document.root)
        while walk.paths.count < offsets.count { walk.paths.append("") }
        return walk.paths
    }

    private struct Walk {
        let offsets: [Int]
        var paths: [String] = []
        var components: [String] = []

        mutating func visit(_ value: JSONValue) {
            // Every wanted offset before the end of this value is inside it, because earlier offsets are done.
            let end = value.kind == .string ? value.offset : value.offset + value.bytes.count - 1
            guard let wanted = next, wanted <= end else { return }
            while next == value.offset { found() }
            for (position, element) in value.elements.enumerated() {
                descend(String(position), element)
                if next.map({ $0 > end }) ?? true { return }
            }
            for member in value.members {
                descend(member.key.string ?? "", member.value)
                if next.map({ $0 > end }) ?? true { return }
            }
            while let wanted = next, wanted <= end { found() }
        }

        private var next: Int? { paths.count < offsets.count ? offsets[paths.count] : nil }

        private mutating func found() { paths.append(components.map { "/" + $0 }.joined()) }

        private mutating func descend(_ component: String, _ value: JSONValue) {
            components.append(component.asPointerToken)
            visit(value)
            components.removeLast()
        }
    }
}
