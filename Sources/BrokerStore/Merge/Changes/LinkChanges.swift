internal import BrokerStaging

/// The objects whose links in link tables differ from those before the job.
///
/// For each object whose links changed, it stores the sum of the digests of its new links, less those of the links that
/// ended. The sum is 0 when the object has the same links as before, positions included. So the memory does not grow
/// with the number of links or of changes. Objects, too, are identified by a digest of their keys; two objects, or two
/// sets of links, are mistaken for each other once in 2⁶⁴.
struct LinkChanges {
    /// By the digest of an object's key; then the changes since each ``mark()``, the outermost first.
    private var sums: [[Int: Int]] = [[:]]

    mutating func add(_ row: LinkRow) {
        for object in row.objects { sums[sums.count - 1][object, default: 0] &+= row.content }
    }

    mutating func remove(_ row: LinkRow) {
        for object in row.objects { sums[sums.count - 1][object, default: 0] &-= row.content }
    }

    /// Begins changes that may be rolled back.
    mutating func mark() { sums.append([:]) }

    /// The changes since the mark stay.
    mutating func accept() {
        let newest = sums.removeLast()
        if !newest.isEmpty { sums[sums.count - 1].merge(newest, uniquingKeysWith: &+) }
    }

    mutating func rollBack() { sums.removeLast() }

    /// Whether the object with this key at the end of the job has other links than before the job.
    func hasOthers(_ entity: Int, _ key: StoredKey) -> Bool {
        let object = LinkRow.object(entity) { hasher in key.forEachCell { $0.hash(into: &hasher) } }
        return sums.reduce(0) { $0 &+ $1[object, default: 0] } != 0
    }
}

/// A row of a link table, as ``LinkChanges`` needs it.
struct LinkRow {
    /// The digests of the objects at its ends that have a relationship for it.
    let objects: [Int]
    let content: Int
    /// A hash of the link table and all columns that is the same on every machine.
    let digest: UInt64

    init(count: Int32, _ table: ChangedTables.LinkTable, _ value: (Int32) -> OpaquePointer?) {
        func cell(_ column: Int32) -> Cell { Cell(value(column)).stored(asReal: table.realColumns.contains(column)) }
        objects = table.ends.map { end in
            Self.object(end.entity) { hasher in
                for column in end.columns { cell(column).hash(into: &hasher) }
            }
        }
        var hasher = Hasher()
        hasher.combine(table.number)
        var digest = RowHash(UInt64(table.number))
        for column in 0..<count {
            let cell = cell(column)
            cell.hash(into: &hasher)
            digest.add(cell)
        }
        content = hasher.finalize()
        self.digest = digest.value
    }

    /// The digest of an object of the entity's table.
    static func object(_ entity: Int, _ key: (inout Hasher) -> Void) -> Int {
        var hasher = Hasher()
        hasher.combine(entity)
        key(&hasher)
        return hasher.finalize()
    }
}
