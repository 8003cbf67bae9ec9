import BrokerModel

/// The key paths of one entity as a tree: node 0 is the record, an edge is a key.
///
/// A record's keys are walked once; each known key's value lands in its node's slot, so that the last of duplicate keys
/// wins, at any depth.
struct KeyTree: Sendable {
    struct Node: Sendable {
        var key: [UInt8]
        var children: [Int] = []
        /// An attribute or relationship reads its value here.
        var isClaimed = false
    }

    private(set) var nodes = [Node(key: [])]

    /// The node at the end of that path, made when it is new.
    mutating func claim(_ path: [String]) -> Int {
        var node = 0
        for key in path {
            let bytes = Array(key.utf8)
            if let child = nodes[node].children.first(where: { nodes[$0].key == bytes }) {
                node = child
            } else {
                nodes.append(Node(key: bytes))
                nodes[node].children.append(nodes.count - 1)
                node = nodes.count - 1
            }
        }
        nodes[node].isClaimed = true
        return node
    }

    func child(of node: Int, _ key: UnsafeBufferPointer<UInt8>) -> Int? {
        for child in nodes[node].children {
            let isEqual = nodes[child].key.withUnsafeBufferPointer { Bytes.areEqual($0, key) }
            if isEqual { return child }
        }
        return nil
    }

    /// By node, its children that have children of their own.
    var innerNodes: [[Int]] {
        nodes.map { node in node.children.filter { !nodes[$0].children.isEmpty } }
    }

    /// A key of the record itself that some path begins with.
    func knows(_ key: String) -> Bool {
        nodes[0].children.contains { nodes[$0].key == Array(key.utf8) }
    }
}
