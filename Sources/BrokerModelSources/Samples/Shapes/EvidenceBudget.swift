/// The evidence of all samples together, so that hostile ones have no more of it.
final class EvidenceBudget {
    private var rows: Int
    private var values: Int

    init(rows: Int = 400_000, values: Int = 6_000_000) { (self.rows, self.values) = (rows, values) }

    func takeRow() -> Bool {
        rows -= 1
        return rows >= 0
    }

    func takeValue() -> Bool {
        values -= 1
        return values >= 0
    }
}
