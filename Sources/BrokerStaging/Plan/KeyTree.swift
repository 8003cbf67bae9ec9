import BrokerModel

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

    /// A node with more children than this has an index of them; with fewer, comparing each is faster.
    private static let searchedChildren = 8

    private(set) var nodes = [Node(key: [])]
    /// The node of the keys inside of claimed values that lead to no other.
    private var rest: Int?
    /// By node; built when all paths are claimed.
    private var indexes: [ChildIndex?] = []

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

    /// Builds the indexes of children, once all paths are claimed.
    mutating func indexChildren() {
        if nodes.contains(where: { $0.isClaimed && !$0.children.isEmpty }) { rest = addNode() }
        indexes = nodes.map { node in
            guard node.children.count > Self.searchedChildren else { return nil }
            return ChildIndex(node.children.map { (nodes[$0].key, $0) })
        }
    }

    func child(of node: Int, _ key: UnsafeBufferPointer<UInt8>) -> Int? {
        if node < indexes.count, let index = indexes[node] { return index[key] }
        for child in nodes[node].children {
            let isEqual = nodes[child].key.withUnsafeBufferPointer { Bytes.areEqual($0, key) }
            if isEqual { return child }
        }
        return nil
    }

    /// The node of keys that lead nowhere from this one; nil where they are unknown.
    func rest(of node: Int) -> Int? { nodes[node].isClaimed ? rest : nil }

    /// By node, its children that have children of their own.
    var innerNodes: [[Int]] {
        nodes.map { node in node.children.filter { !nodes[$0].children.isEmpty } }
    }

    /// Whether some path begins with this key of the record.
    func knows(_ key: String) -> Bool {
        nodes[0].children.contains { nodes[$0].key == Array(key.utf8) }
    }
}

/// The children of one node by their keys. Owns the bytes of the keys, which never change.
private final class ChildIndex: @unchecked Sendable {
    // Filled in init, then only read.
    private let bytes: UnsafeMutableBufferPointer<UInt8>
    private var children: [BytesKey: Int] = [:]

    init(_ keys: [(key: [UInt8], child: Int)]) {
        bytes = .allocate(capacity: keys.reduce(0) { $0 + $1.key.count })
        _ = bytes.initialize(fromContentsOf: keys.flatMap(\.key))
        var start = 0
        for (key, child) in keys {
            let keyBytes = UnsafeBufferPointer(rebasing: bytes[start..<start + key.count])
            children[BytesKey(bytes: keyBytes)] = child
            start += key.count
        }
    }

    deinit { bytes.deallocate() }

    subscript(key: UnsafeBufferPointer<UInt8>) -> Int? { children[BytesKey(bytes: key)] }
}
