import BrokerJSON
internal import BrokerXML

/// The elements of one record while they are read, and then as JSON.
///
/// An element is an object of its attributes (`@name`) and its child elements; several children of one name are an
/// array. Its text is `#text` beside them, or its value when there is nothing else. An empty element is null, and so is
/// an empty attribute.
struct XMLRecord {
    /// Nodes refer to each other by index; 0 is no child of any node, and so means that there is none.
    private struct Node {
        let name: Int
        var text: [UInt8] = []
        var firstChild = 0
        var lastChild = 0
        var nextSibling = 0
        /// It is marked as having no value (`xsi:nil`).
        var isNil = false
    }

    /// The assumed bytes of a node, so that a record of empty elements cannot take all memory.
    private static let nodeBytes = 64

    /// The memory of a larger record is not reused for the next one.
    private static let mostNodesKept = 4_096

    private var nodes: [Node] = []
    /// The open elements.
    private var open: [Int] = []
    private var names: [[UInt8]] = []
    private var numbers: [[UInt8]: Int] = [:]
    /// The approximate bytes of the record.
    private(set) var size = 0

    mutating func open(_ name: [UInt8], _ attributes: [XMLAttribute]) {
        let node = add(name)
        open.append(node)
        for attribute in attributes {
            if attribute.name.elementsEqual("xsi:nil".utf8) {
                nodes[node].isNil =
                    attribute.value.elementsEqual("true".utf8) || attribute.value.elementsEqual("1".utf8)
            }
            let child = add([UInt8(ascii: "@")] + attribute.name)
            nodes[child].text = attribute.value
            size += attribute.value.count
        }
    }

    mutating func append(_ text: some Collection<UInt8>) {
        guard let node = open.last else { return }
        nodes[node].text.append(contentsOf: text)
        size += text.count
    }

    mutating func close() { open.removeLast() }

    /// Returns the record and discards it; nil when it is nested too deeply.
    mutating func take() -> [UInt8]? {
        var writer = JSONWriter(capacity: 1024)
        let isWhole = write(0, depth: 0, to: &writer)
        // To empty a table takes as long as it is large, also when it is nearly empty.
        let isSmall = nodes.count <= Self.mostNodesKept
        nodes.removeAll(keepingCapacity: isSmall)
        names.removeAll(keepingCapacity: isSmall)
        numbers.removeAll(keepingCapacity: isSmall)
        size = 0
        return isWhole ? writer.bytes : nil
    }

    /// Adds a node to the open one.
    private mutating func add(_ name: [UInt8]) -> Int {
        let number: Int
        if let known = numbers[name] {
            number = known
        } else {
            number = names.count
            names.append(name)
            numbers[name] = number
        }
        let node = nodes.count
        nodes.append(Node(name: number))
        size += name.count + Self.nodeBytes
        guard let parent = open.last else { return node }
        if nodes[parent].firstChild == 0 {
            nodes[parent].firstChild = node
        } else {
            nodes[nodes[parent].lastChild].nextSibling = node
        }
        nodes[parent].lastChild = node
        return node
    }

    // MARK: - JSON

    /// False when it is nested too deeply.
    private func write(_ node: Int, depth: Int, to writer: inout JSONWriter) -> Bool {
        guard depth < RecordLimits.maximumDepth else { return false }
        let element = nodes[node]
        let isAttribute = names[element.name].first == UInt8(ascii: "@")
        let text = isAttribute ? element.text[...] : Self.trimmed(element.text)
        guard !element.isNil, element.firstChild != 0 else {
            if element.isNil || text.isEmpty { writer.null() } else { Self.write(text, to: &writer) }
            return true
        }
        var isWhole = true
        writer.object { writer in
            for group in groups(of: element) {
                names[nodes[group[0]].name].withUnsafeBufferPointer { writer.key(String(decoding: $0, as: UTF8.self)) }
                if group.count == 1 {
                    isWhole = write(group[0], depth: depth + 1, to: &writer) && isWhole
                } else {
                    writer.array { writer in
                        for child in group { isWhole = write(child, depth: depth + 2, to: &writer) && isWhole }
                    }
                }
            }
            guard !text.isEmpty else { return }
            writer.key("#text")
            Self.write(text, to: &writer)
        }
        return isWhole
    }

    /// The children, those of one name together, in the order of the names' first occurrences.
    private func groups(of element: Node) -> [[Int]] {
        var groups: [[Int]] = []
        var places: [Int: Int] = [:]
        var child = element.firstChild
        while child != 0 {
            if let place = places[nodes[child].name] {
                groups[place].append(child)
            } else {
                places[nodes[child].name] = groups.count
                groups.append([child])
            }
            child = nodes[child].nextSibling
        }
        return groups
    }

    private static func write(_ text: ArraySlice<UInt8>, to writer: inout JSONWriter) {
        text.withUnsafeBufferPointer { writer.string($0) }
    }

    /// Without leading and trailing XML white space.
    private static func trimmed(_ text: [UInt8]) -> ArraySlice<UInt8> {
        func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 }
        guard let first = text.firstIndex(where: { !isSpace($0) }), let last = text.lastIndex(where: { !isSpace($0) })
        else { return [] }
        return text[first...last]
    }
}
