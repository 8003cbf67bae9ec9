internal import BrokerJSON

/// The objects at one node of a fetch's tree of relationships, each written once however often it is nested. Each has
/// holes for its nested objects.
struct FetchedLevel {
    private(set) var rowNumbers: [Int64] = []
    private var writer = JSONWriter(capacity: 4 << 10)
    /// By row: the range of its text.
    private var texts: [Range<Int>] = []
    /// By row and included relationship: the offset of the hole for those objects.
    private var holes: [Int] = []
    private let holeCount: Int
    private var rowsByNumber: [Int64: Int] = [:]

    init(holeCount: Int) { self.holeCount = holeCount }

    var count: Int { texts.count }

    /// Approximate bytes of memory.
    var memory: Int { writer.count + texts.count * 64 + holes.count * 8 }

    /// The row with that number, if it was added already.
    func row(ofNumber number: Int64) -> Int? { rowsByNumber[number] }

    /// - Returns: the new row.
    mutating func append(_ statement: Statement, _ reader: ObjectReader) throws(StoreError) -> Int {
        // A comma separates two of them.
        let start = writer.count + (texts.isEmpty ? 0 : 1)
        let first = holes.count
        holes += repeatElement(0, count: holeCount)
        var found = holes
        holes = []
        try reader.withRow(of: statement) { row in
            reader.shape.write(row, to: &writer) { number, place in found[first + number] = place }
        }
        holes = found
        texts.append(start..<writer.count)
        let number = statement.integer(0)
        rowNumbers.append(number)
        rowsByNumber[number] = texts.count - 1
        return texts.count - 1
    }

    /// Appends a row's text piece by piece, and calls `fill` at each hole with the number of its relationship.
    func write<Failure: Error>(
        _ row: Int, to bytes: inout [UInt8], fill: (Int, inout [UInt8]) throws(Failure) -> Void
    ) throws(Failure) {
        var start = texts[row].lowerBound
        // Holes are in the order of the text, which may differ from that of the relationships.
        let own = (0..<holeCount).map { (number: $0, place: holes[row * holeCount + $0]) }
            .sorted { $0.place < $1.place }
        for (number, place) in own where place > 0 {
            writer.copy(start..<place, to: &bytes)
            try fill(number, &bytes)
            start = place
        }
        writer.copy(start..<texts[row].upperBound, to: &bytes)
    }
}

/// The links from the rows of one level to those of the next, over one relationship.
struct FetchedLinks {
    /// By row of the near level: the index in `rows` at which its links begin.
    private var firsts: [Int] = [0]
    /// Rows of the far level.
    private var rows: [Int] = []

    var memory: Int { (firsts.count + rows.count) * 8 }

    /// Rows of the near level must come in their order.
    mutating func append(_ row: Int, of near: Int) {
        while firsts.count <= near { firsts.append(rows.count) }
        rows.append(row)
    }

    func rows(of near: Int) -> ArraySlice<Int> {
        guard near < firsts.count else { return [] }
        return rows[firsts[near]..<(near + 1 < firsts.count ? firsts[near + 1] : rows.count)]
    }
}
