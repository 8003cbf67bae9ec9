internal import BrokerJSON

/// The common shape of the samples' objects at one position.
final class ObjectShape {
    /// Keys of nested objects that are observed one by one; the values of all further keys are observed together.
    static let mostKeys = 300
    /// The same for the records themselves: the maximum columns of a table.
    static let mostRecordKeys = 1_900
    /// The maximum depth of nested objects; deeper ones are stored as JSON.
    static let deepest = 12

    /// Objects that were seen.
    private(set) var count = 0
    /// In the order in which they were seen first.
    private(set) var keys: [String] = []
    /// By the index of their key.
    private(set) var properties: [PropertyShape] = []
    /// The values of keys beyond the limit.
    private(set) var further: PropertyShape?
    private(set) var rows: RowSample
    /// By the index of their key, the columns of ``rows``; nil for keys that are not compared.
    private(set) var columns: [Int?] = []
    private var columnCount = (plain: 0, named: RowSample.plainColumns)
    let depth: Int
    /// There is one of these objects at most in each record, so a value that is unique here is unique among the records.
    let isSingle: Bool
    /// The values are of a format that has nothing but texts.
    let readsTexts: Bool
    /// By bytes: keys that differ only in Unicode's normal form are different keys.
    private var indices: [[UInt8]: Int] = [:]
    private var keyBytes: [[UInt8]] = []

    init(depth: Int, isSingle: Bool, readsTexts: Bool = false, budget: EvidenceBudget = EvidenceBudget()) {
        self.depth = depth
        self.readsTexts = readsTexts
        self.isSingle = isSingle
        rows = RowSample(budget)
    }

    subscript(key: String) -> PropertyShape? { indices[Array(key.utf8)].map { properties[$0] } }

    func index(of key: String) -> Int? { indices[Array(key.utf8)] }

    /// - Parameter list: number of the array that holds the object; nil for a single object.
    /// - Precondition: the value is an object.
    func observe(_ object: JSONValue, inList list: Int? = nil) {
        count += 1
        rows.begin(inList: list)
        var expected = 0
        for (key, value) in object.members {
            guard let index = index(of: key, expected: expected) else {
                if further == nil { further = PropertyShape(isTracked: false) }
                _ = further?.observe(value, self)
                continue
            }
            expected = index + 1
            if let hash = properties[index].observe(value, self), let column = columns[index] {
                rows.note(hash, at: column)
            }
        }
    }

    /// The index of a key, which is new perhaps; nil when the shape has too many keys.
    ///
    /// - Parameter expected: the likely index: objects usually have their keys in one order.
    private func index(of key: JSONValue, expected: Int) -> Int? {
        let bytes = key.bytes
        if expected < keyBytes.count {
            let isExpected = keyBytes[expected].withUnsafeBufferPointer { key.hasBytes($0) }
            if isExpected { return expected }
        }
        let copy = Array(bytes)
        if let index = indices[copy] { return index }
        guard keys.count < (depth == 0 ? Self.mostRecordKeys : Self.mostKeys) else { return nil }
        return add(copy)
    }

    private func add(_ key: [UInt8]) -> Int {
        let name = String(decoding: key, as: UTF8.self)
        indices[key] = keys.count
        keys.append(name)
        keyBytes.append(key)
        let isNamed = IdentityName(name, of: "") != nil
        properties.append(PropertyShape(isTracked: isSingle || isNamed))
        columns.append(column(isNamed: isNamed))
        return keys.count - 1
    }

    /// Keys that may identify have columns of their own, wherever they are among the others.
    private func column(isNamed: Bool) -> Int? {
        if isNamed, columnCount.named < RowSample.width {
            columnCount.named += 1
            return columnCount.named - 1
        }
        guard columnCount.plain < RowSample.plainColumns else { return nil }
        columnCount.plain += 1
        return columnCount.plain - 1
    }

    /// Adds the observations of another position.
    func merge(_ other: ObjectShape) {
        guard other !== self else { return }
        count += other.count
        for (key, property) in zip(other.keyBytes, other.properties) {
            properties[indices[key] ?? add(key)].merge(property)
        }
        rows.merge(other.rows, columns(of: other))
        guard let theirs = other.further else { return }
        if let further { further.merge(theirs) } else { further = theirs }
    }

    /// By column of the other shape's rows, that of the same key here.
    func columns(of other: ObjectShape) -> [Int?] {
        var columns = [Int?](repeating: nil, count: RowSample.width)
        for (key, column) in zip(other.keyBytes, other.columns) {
            if let column { columns[column] = indices[key].flatMap { self.columns[$0] } }
        }
        return columns
    }

    /// The keys that both have.
    func commonKeys(with other: ObjectShape) -> Int {
        let (fewer, more) = keys.count < other.keys.count ? (self, other) : (other, self)
        return fewer.keyBytes.count { more.indices[$0] != nil }
    }

    /// The proportion of the keys of both that both have, from 0 to 1.
    func likeness(to other: ObjectShape) -> Double {
        let common = commonKeys(with: other)
        let all = keys.count + other.keys.count - common
        return all == 0 ? 0 : Double(common) / Double(all)
    }
}
