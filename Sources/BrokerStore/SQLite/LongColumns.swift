internal import BrokerSchema

/// The columns of a table that may hold long values, in the order of the stored row.
///
/// SQLite reads a row from its beginning: to reach a column, it follows the pages of all values before it.
struct LongColumns {
    private(set) var names: [String] = []
    private var positions: [String: Int32] = [:]

    /// - Parameter isStored: whether rows have a value for it.
    mutating func note(_ name: String, _ position: Int32, _ affinity: Affinity, isStored: Bool) {
        positions[name] = position
        if isStored, affinity == .text || affinity == .blob { names.append(name) }
    }

    /// Those that SQLite reads, or follows, to read some columns.
    func names(through read: [String]) -> [String] {
        guard let last = read.compactMap({ positions[$0] }).max() else { return [] }
        return names.filter { positions[$0]! <= last }
    }
}
