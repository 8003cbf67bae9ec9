internal import BrokerJSON
internal import BrokerModel

/// The key paths of some routes as a tree: where in a payload the objects are, and which mapping reads them.
///
/// It is walked over the payload itself, in the order of the text, and copies nothing.
package final class RouteTree: Sendable {
    struct Target: Sendable {
        /// Nil for an error route.
        let mapping: Int?
        let parameters: PathParameters?
    }

    private let tree: KeyTree
    /// By node of the tree.
    private let targets: [Int: Target]

    /// - Parameter routes: in their order; of two with the same key path the first one counts.
    init(_ routes: [(keyPath: [String], target: Target)]) {
        var tree = KeyTree()
        targets = Dictionary(
            routes.map { (tree.claim($0.keyPath), $0.target) }, uniquingKeysWith: { first, _ in first })
        self.tree = tree
    }

    /// Upper bound in bytes on the memory of a route in a tree: its nodes, with room to grow, and its parameters.
    static func memory(_ keyPath: [String], _ parameters: PathParameters?) -> Int {
        let entry = MemoryLayout<(Int, Target)>.stride
        return keyPath.reduce((parameters?.memory ?? 0) + 2 * entry) {
            $0 + 2 * MemoryLayout<KeyTree.Node>.stride + 64 + $1.utf8.count
        }
    }

    private func hasChildren(_ node: Int) -> Bool { !tree.nodes[node].children.isEmpty }

    /// Returns the members of an object at the node's keys, in the order of the text. The last of duplicate keys wins.
    private func children(of node: Int, in object: JSONValue) -> [(node: Int, value: JSONValue)] {
        var found: [(node: Int, value: JSONValue)] = []
        for (key, value) in object.members {
            guard let child = tree.child(of: node, key.bytes) else { continue }
            found.removeAll { $0.node == child }
            found.append((child, value))
        }
        return found
    }

    /// Calls `body` with each value that a route leads to, in the order of the text, and with its route.
    func forEachPart<Failure: Error>(
        of payload: JSONValue, _ node: Int = 0, _ body: (JSONValue, Target) throws(Failure) -> Void
    ) throws(Failure) {
        switch payload.kind {
        case .array:
            for element in payload.elements { try forEachPart(of: element, node, body) }
        case .object:
            for (child, value) in children(of: node, in: payload) {
                if let target = targets[child], target.mapping != nil, !value.isNull { try body(value, target) }
                if hasChildren(child) { try forEachPart(of: value, child, body) }
            }
        default: break
        }
    }

    /// Returns the first value in the text at the end of a key path for which `isMeant` is true; nil when there is
    /// none. Searches the elements of arrays.
    func first(in payload: JSONValue, _ node: Int = 0, _ isMeant: (JSONValue) -> Bool) -> JSONValue? {
        switch payload.kind {
        case .array:
            for element in payload.elements {
                if let found = first(in: element, node, isMeant) { return found }
            }
        case .object:
            for (child, value) in children(of: node, in: payload) {
                if targets[child] != nil, isMeant(value) { return value }
                if hasChildren(child), let found = first(in: value, child, isMeant) { return found }
            }
        default: break
        }
        return nil
    }
}

/// The values of a route pattern's parameters in the path of a job. A record without a value of its own takes them.
///
/// Immutable; owns the text of its values.
package final class PathParameters: Sendable {
    private let document: JSONDocument
    private let names: [[UInt8]]
    /// Memory use in bytes.
    let memory: Int

    /// - Parameter values: few, in the order of the pattern.
    package init(_ values: [(name: String, value: String)]) {
        names = values.map { Array($0.name.utf8) }
        var writer = JSONWriter()
        writer.array { writer in
            for value in values { writer.string(value.value) }
        }
        do {
            document = try JSONDocument(parsing: JSONText(copying: writer.bytes))
        } catch {
            preconditionFailure("what was just written is JSON: \(error)")
        }
        memory = 256 + document.text.count + document.memory + names.reduce(0) { $0 + 48 + $1.count }
    }

    /// Returns the value of the parameter of that name; nil when there is none. Valid while this object lives.
    func value(of name: String) -> JSONValue? {
        guard let index = names.firstIndex(where: { $0.elementsEqual(name.utf8) }) else { return nil }
        var elements = document.root.elements
        for _ in 0..<index { _ = elements.next() }
        return elements.next()
    }
}
