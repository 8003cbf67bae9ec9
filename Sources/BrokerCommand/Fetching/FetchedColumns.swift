/// The columns of a table or of CSV: the paths of the values of some objects, in the order in which they are found.
struct FetchedColumns {
    let names: [String]
    /// By the bytes of the name: two names that differ in Unicode form only are two.
    private let places: [[UInt8]: Int]
    /// Names of values that have no column; as many as a message lists.
    private(set) var missing: [String] = []
    private static let mostMissing = 10

    init(names: [String]) {
        self.names = names
        places = Dictionary(names.enumerated().map { (Array($1.utf8), $0) }, uniquingKeysWith: { first, _ in first })
    }

    /// - Parameter leading: paths whose values have the first columns, in this order.
    init(of rows: [[FetchedCell]], leading: [String] = []) {
        var names: [String] = []
        var known: Set<[UInt8]> = []
        /// The beginnings of paths: a nested object that is null in some rows needs no column.
        var outer: Set<[UInt8]> = []
        var withValue: Set<[UInt8]> = []
        for cell in rows.joined() {
            let name = Array(cell.name.utf8)
            if !cell.isNull { withValue.insert(name) }
            guard known.insert(name).inserted else { continue }
            names.append(cell.name)
            for (place, byte) in name.enumerated() where byte == UInt8(ascii: ".") {
                outer.insert(Array(name[..<place]))
            }
        }
        names = names.filter { outer.isDisjoint(with: [Array($0.utf8)]) || withValue.contains(Array($0.utf8)) }
        let ranks = names.map { name in
            leading.firstIndex { name.utf8.elementsEqual($0.utf8) || name.utf8.starts(with: "\($0).".utf8) }
                ?? leading.count
        }
        self.init(
            names: names.indices.sorted { (ranks[$0], $0) < (ranks[$1], $1) }.map { names[$0] })
    }

    /// The values in the order of the columns; nil where the object has none.
    mutating func line(_ cells: [FetchedCell]) -> [FetchedCell?] {
        var line: [FetchedCell?] = Array(repeating: nil, count: names.count)
        var next = 0
        for cell in cells {
            // They nearly always come in the columns' order.
            let isNext = next < names.count && names[next].utf8.elementsEqual(cell.name.utf8)
            guard let place = isNext ? next : places[Array(cell.name.utf8)] else {
                addMissing(cell)
                continue
            }
            line[place] = cell
            next = place + 1
        }
        return line
    }

    private mutating func addMissing(_ cell: FetchedCell) {
        guard !cell.isNull, missing.count < Self.mostMissing,
            !missing.contains(where: { $0.utf8.elementsEqual(cell.name.utf8) })
        else { return }
        missing.append(cell.name)
    }
}
