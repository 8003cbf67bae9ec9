/// The names of a header, and the paths to which they lead.
///
/// Dots divide a name into keys, except in one like `No.`, `St. Name` or `a..b`, and where another name makes a value of
/// one of its objects. There each dot becomes `_`, because no key path of a model could have it.
struct CSVNames {
    private var paths: [[[UInt8]]] = []
    private var given: [Bool] = []
    /// All keys of the names that are in the header as they are.
    private var givenKeys: Set<[UInt8]> = []

    private static let dot = UInt8(ascii: ".")

    init(_ names: [String]) {
        for (index, name) in names.enumerated() {
            let isBlank = name.utf8.allSatisfy(Self.isBlank)
            let written = isBlank ? Array("column_\(index + 1)".utf8) : Array(name.utf8)
            let isPath = Self.isPath(written)
            paths.append(
                isPath ? written.split(separator: Self.dot).map(Array.init) : [Self.withoutDots(written)])
            given.append(!isBlank && (isPath || !written.contains(Self.dot)))
        }
        flattenPathsThroughValues()
        for (index, path) in paths.enumerated() where given[index] { givenKeys.formUnion(path) }
    }

    func path(of field: Int) -> [[UInt8]] { paths[field] }

    /// The name is in the header as it is.
    func isGiven(_ field: Int) -> Bool { given[field] }

    /// A name of the header has that key.
    func hasKey(_ key: [UInt8]) -> Bool { givenKeys.contains(key) }

    private static func isBlank(_ byte: UInt8) -> Bool { byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }

    /// Each dot is between two bytes that are no dots and not blank.
    private static func isPath(_ name: [UInt8]) -> Bool {
        for (index, byte) in name.enumerated() where byte == dot {
            guard index > 0, index + 1 < name.count else { return false }
            for neighbour in [name[index - 1], name[index + 1]] where neighbour == dot || isBlank(neighbour) {
                return false
            }
        }
        return true
    }

    private static func withoutDots(_ name: [UInt8]) -> [UInt8] { name.map { $0 == dot ? UInt8(ascii: "_") : $0 } }

    private struct Key: Hashable {
        let object: Int
        let name: [UInt8]
    }

    /// `a.b` beside `a`.
    private mutating func flattenPathsThroughValues() {
        guard paths.contains(where: { $0.count > 1 }) else { return }
        var objects: [Key: Int] = [:]
        var values: Set<Key> = []
        func key(_ path: [[UInt8]], _ depth: Int, in object: Int) -> Key { Key(object: object, name: path[depth]) }
        for path in paths {
            var object = 0
            for depth in path.indices {
                let key = key(path, depth, in: object)
                guard depth < path.count - 1 else {
                    values.insert(key)
                    break
                }
                object = objects[key] ?? objects.count + 1
                objects[key] = object
            }
        }
        for (index, path) in paths.enumerated() where path.count > 1 {
            var object = 0
            for depth in 0..<path.count - 1 {
                let key = key(path, depth, in: object)
                guard !values.contains(key) else {
                    paths[index] = [Array(path.joined(separator: [UInt8(ascii: "_")]))]
                    given[index] = false
                    break
                }
                object = objects[key] ?? 0
            }
        }
    }
}
