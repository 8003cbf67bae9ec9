/// Rows that a statement of ``Upsert`` leaves to the next one, by their positions in its scan's order. At a fixed
/// address, for SQLite's callbacks.
struct PostponedRows {
    private(set) var places: [UInt32] = []
    /// The last one; -2 for none, which is before every position.
    private(set) var last = -2

    mutating func note(_ place: Int) {
        guard place != last else { return }
        places.append(UInt32(place))
        last = place
    }
}
