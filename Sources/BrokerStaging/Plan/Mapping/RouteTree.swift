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

    private struct Node: Sendable {
        let key: [UInt8]
        var children: [Int] = []
        var target: Target?
    }

    private let nodes: [Node]

    /// - Parameter routes: in their order; of two with the same key path the first one counts.
    init(_ routes: [(keyPath: [String], target: Target)]) {
        var nodes = [Node(key: [])]
        for (keyPath, target) in routes {
            var node = 0
            for key in keyPath.map({ Array($0.utf8) }) {
                if let known = nodes[node].children.first(where: { nodes[$0].key == key }) {
                    node = known
                    continue
                }
                nodes.append(Node(key: key))
                nodes[node].children.append(nodes.count - 1)
                node = nodes.count - 1
            }
            nodes[node].target = nodes[node].target ?? target
        }
        self.nodes = nodes
    }

    /// Upper bound in bytes on the memory of a route in a tree: its nodes, with room to grow, and its parameters.
    static func memory(_ keyPath: [String], _ parameters: PathParameters?) -> Int {
        keyPath.reduce(parameters?.memory ?? 0) { $0 + 2 * MemoryLayout<Node>.stride + 64 + $1.utf8.count }
    }

    func hasChildren(_ node: Int) -> Bool { !nodes[node].children.isEmpty }

    /// Returns the members of an object at the node's keys, in the order of the text. The last of duplicate keys wins.
    func children(of node: Int, in object: JSONValue) -> [(node: Int, value: JSONValue)] {
        var found: [(node: Int, value: JSONValue)] = []
        for (key, value) in object.members {
            let child = nodes[node].children.first { child in
                nodes[child].key.withUnsafeBufferPointer { Bytes.areEqual($0, key.bytes) }
            }
            guard let child else { continue }
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
                if let target = nodes[child].target, target.mapping != nil, !value.isNull { try body(value, target) }
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
                if nodes[child].target != nil, isMeant(value) { return value }
                if hasChildren(child), let found = first(in: value, child, isMeant) { return found }
            }
        default: break
        }
        return nil
    }
}
