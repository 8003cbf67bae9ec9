/// The key paths of one entity as a tree: node 0 is the record, an edge is a key.
///
/// The scanner walks a record's keys once and stores each known key's value in its node's slot. The last of duplicate
/// keys wins, at any depth.
struct KeyTree: Sendable {
    struct Node: Sendable {
        var key: [UInt8]
        var children: [Int] = []
        /// An attribute or relationship reads its value here: keys inside of it that lead to no node are known ones.
        var isClaimed = false
    }

    private(set) var nodes = [Node(key: [])]
    /// The node of the keys inside of claimed values that lead to no other.
    private var rest: Int?
    /// Empty until all paths are claimed. The tree of routes, made for each path of a payload, has none.
    private var index = ChildIndex()

    /// Returns the node at the end of the path, and adds it if it is new.
    ///
    /// - Parameter start: the node at which the path begins.
    mutating func claim(_ path: [String], below start: Int = 0) -> Int {
        var node = start
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

    /// Adds a node that no key leads to. The scanner begins there for values below a key of any name.
    mutating func addNode() -> Int {
        nodes.append(Node(key: []))
        return nodes.count - 1
    }

    /// Builds the index of children, once all paths are claimed.
    mutating func indexChildren() {
        if nodes.contains(where: { $0.isClaimed && !$0.children.isEmpty }) { rest = addNode() }
        index = ChildIndex(nodes)
    }

    func child(of node: Int, _ key: UnsafeBufferPointer<UInt8>) -> Int? {
        guard !index.isEmpty else {
            return nodes[node].children.first { child in
                nodes[child].key.withUnsafeBufferPointer { Bytes.areEqual($0, key) }
            }
        }
        return index.child(of: node, key)
    }

    /// The node of keys that lead nowhere from this one; nil where they are unknown.
    func rest(of node: Int) -> Int? { nodes[node].isClaimed ? rest : nil }

    /// By node, its children that have children of their own.
    var innerNodes: [[Int]] {
        nodes.map { node in node.children.filter { !nodes[$0].children.isEmpty } }
    }

    /// By node, the keys that lead there from where the scanner begins.
    var paths: [[String]] {
        var paths: [[String]] = Array(repeating: [], count: nodes.count)
        // A node's children come after it.
        for (node, parent) in nodes.enumerated() {
            for child in parent.children {
                paths[child] = paths[node] + [String(decoding: nodes[child].key, as: UTF8.self)]
            }
        }
        return paths
    }

    /// Whether some path begins with this key of the record.
    func knows(_ key: String) -> Bool {
        nodes[0].children.contains { nodes[$0].key == Array(key.utf8) }
    }
}

/// The children of all nodes by their keys: for each node a hash table with open addressing, one after the other.
private struct ChildIndex {
    private struct Edge {
        var hash: UInt64 = 0
        /// Zero where there is none: the root is no node's child.
        var child = 0
        /// In ``bytes``.
        var key = 0..<0
    }

    private var edges: [Edge] = []
    /// By node, its part of ``edges``: a power of two, and at most half of it is used.
    private var parts: [Range<Int>] = []
    private var bytes: [UInt8] = []

    init() {}

    init(_ nodes: [KeyTree.Node]) {
        for node in nodes {
            var count = 2
            while count < 2 * node.children.count { count *= 2 }
            let part = edges.count..<edges.count + count
            edges += repeatElement(Edge(), count: count)
            parts.append(part)
            for child in node.children {
                let key = nodes[child].key
                let hash = key.withUnsafeBufferPointer { Bytes.hash($0, into: Bytes.seed) }
                var slot = Self.first(hash, part)
                while edges[slot].child != 0 { slot = Self.next(slot, part) }
                edges[slot] = Edge(hash: hash, child: child, key: bytes.count..<bytes.count + key.count)
                bytes += key
            }
        }
    }

    var isEmpty: Bool { parts.isEmpty }

    func child(of node: Int, _ key: UnsafeBufferPointer<UInt8>) -> Int? {
        guard node < parts.count else { return nil }
        let part = parts[node]
        let hash = Bytes.hash(key, into: Bytes.seed)
        var slot = Self.first(hash, part)
        while edges[slot].child != 0 {
            let edge = edges[slot]
            let isEqual =
                edge.hash == hash
                && bytes.withUnsafeBufferPointer {
                    Bytes.areEqual(UnsafeBufferPointer(rebasing: $0[edge.key]), key)
                }
            if isEqual { return edge.child }
            slot = Self.next(slot, part)
        }
        return nil
    }

    private static func first(_ hash: UInt64, _ part: Range<Int>) -> Int {
        part.lowerBound + Int(truncatingIfNeeded: hash) & (part.count - 1)
    }

    private static func next(_ slot: Int, _ part: Range<Int>) -> Int {
        part.lowerBound + (slot + 1 - part.lowerBound) & (part.count - 1)
    }
}
