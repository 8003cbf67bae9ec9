/// Hashes of the scalar values of the first objects at a position, to see which keys determine the others.
///
/// Memory: 132 bytes for each object, of at most ``mostRows`` here and 400,000 in all.
struct RowSample {
    /// Only so many keys are compared.
    static let width = 32
    /// The first columns are those of any keys, the others those of keys that may identify.
    static let plainColumns = 16
    static let mostRows = 100_000

    /// `width` values for each object; 0 where it has no scalar.
    private var values: [UInt32] = []
    /// By object, the number of the array that holds it; 0 for a single object.
    private var lists: [Int32] = []
    private var isOpen = false
    let budget: EvidenceBudget

    init(_ budget: EvidenceBudget) { self.budget = budget }

    var count: Int { lists.count }
    /// Objects that were not recorded.
    private(set) var isCut = false

    mutating func begin(inList list: Int?) {
        isOpen = count < Self.mostRows && budget.takeRow()
        guard isOpen else { return isCut = true }
        lists.append(Int32(truncatingIfNeeded: list ?? 0))
        for _ in 0..<Self.width { values.append(0) }
    }

    mutating func note(_ hash: Int, at column: Int) {
        guard isOpen else { return }
        values[values.count - Self.width + column] = Self.folded(hash)
    }

    static func folded(_ hash: Int) -> UInt32 {
        max(1, UInt32(truncatingIfNeeded: hash) ^ UInt32(truncatingIfNeeded: hash >> 32))
    }

    /// - Parameter columns: by column of the other sample, that of this one.
    mutating func merge(_ other: RowSample, _ columns: [Int?]) {
        isCut = isCut || other.isCut
        lists.reserveCapacity(count + other.count)
        values.reserveCapacity((count + other.count) * Self.width)
        let firstList = (lists.max() ?? 0) + 1
        for row in 0..<other.count {
            begin(inList: other.lists[row] == 0 ? nil : Int(firstList + other.lists[row]))
            guard isOpen else { return }
            let last = values.count - Self.width
            for (column, own) in columns.enumerated() {
                if let own { values[last + own] = other.value(row, column) }
            }
        }
        isOpen = false
    }

    private func value(_ row: Int, _ column: Int) -> UInt32 { values[row * Self.width + column] }

    /// How objects with the same value at a key compare: how many repeat a value, and the mean and the least proportion,
    /// from 0 to 1, in which their other values are equal. Objects without other values count as 1.
    func agreement(at column: Int) -> (repetitions: Int, equal: Double, least: Double) {
        var first: [UInt32: Int] = [:]
        var (repetitions, sum, least) = (0, 0.0, 1.0)
        for row in 0..<count {
            guard let earlier = first[value(row, column)] else {
                first[value(row, column)] = row
                continue
            }
            repetitions += 1
            var (equal, compared) = (0, 0)
            for other in 0..<Self.width where other != column {
                let (mine, theirs) = (value(row, other), value(earlier, other))
                guard mine != 0, theirs != 0 else { continue }
                compared += 1
                if mine == theirs { equal += 1 }
            }
            let proportion = compared == 0 ? 1 : Double(equal) / Double(compared)
            sum += proportion
            least = min(least, proportion)
        }
        return (repetitions, repetitions == 0 ? 1 : sum / Double(repetitions), least)
    }

    /// No two objects of one array have the same value at that key.
    func isUniqueInLists(at column: Int) -> Bool {
        guard count > 0 else { return false }
        var seen: Set<UInt64> = []
        for row in 0..<count
        where lists[row] != 0
            && !seen.insert(UInt64(UInt32(bitPattern: lists[row])) << 32 | UInt64(value(row, column))).inserted
        {
            return false
        }
        return true
    }

    /// The values are the positions in the arrays, from 0 or 1.
    ///
    /// - Parameter hash: of the whole number.
    func arePositions(at column: Int, _ hash: (Int) -> Int) -> Bool {
        guard count > 0 else { return false }
        for start in 0...1 {
            var (position, list) = (start, Int32(-1))
            let areAll = (0..<count).allSatisfy { row in
                position = lists[row] == list ? position + 1 : start
                list = lists[row]
                return value(row, column) == Self.folded(hash(position))
            }
            if areAll { return true }
        }
        return false
    }

    /// Some objects are in arrays.
    var hasLists: Bool { lists.contains { $0 != 0 } }

    /// Arrays that have objects.
    var listCount: Int { Set(lists).count }

    /// How objects of both samples with the same value at a key compare, as ``agreement(at:)`` says.
    ///
    /// - Parameter columns: by column of the other sample, that of this one; nil where this one has none.
    func agreement(with other: RowSample, _ columns: [Int?], at column: Int) -> (repetitions: Int, equal: Double) {
        var first: [UInt32: Int] = [:]
        for row in 0..<count where first[value(row, column)] == nil { first[value(row, column)] = row }
        guard let otherColumn = columns.firstIndex(of: column) else { return (0, 1) }
        var (repetitions, sum) = (0, 0.0)
        for row in 0..<other.count {
            guard let earlier = first[other.value(row, otherColumn)] else { continue }
            repetitions += 1
            var (equal, compared) = (0, 0)
            for (theirs, own) in columns.enumerated() {
                guard let own, own != column, value(earlier, own) != 0, other.value(row, theirs) != 0 else { continue }
                compared += 1
                if value(earlier, own) == other.value(row, theirs) { equal += 1 }
            }
            sum += compared == 0 ? 1 : Double(equal) / Double(compared)
        }
        return (repetitions, repetitions == 0 ? 1 : sum / Double(repetitions))
    }

    /// All objects have the same values.
    var isConstant: Bool {
        (1..<max(1, count)).allSatisfy { row in
            (0..<Self.width).allSatisfy { value(row, $0) == value(0, $0) }
        }
    }

    /// No two objects have the same values at these keys together, and each has all of them.
    func areUnique(together columns: [Int]) -> Bool {
        guard !isCut, count > 0 else { return false }
        var seen: Set<[UInt32]> = []
        for row in 0..<count {
            let key = columns.map { value(row, $0) }
            guard !key.contains(0), seen.insert(key).inserted else { return false }
        }
        return true
    }
}
