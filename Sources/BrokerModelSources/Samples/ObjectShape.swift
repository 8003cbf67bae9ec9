internal import BrokerJSON
internal import BrokerStaging

/// The samples' values at one key.
///
/// What each value changes is without the checks of exclusive access at run time, here and in ``ObjectShape``: they cost as much as
/// the observing, and no method changes what its caller is changing.
final class PropertyShape {
    /// Values that were seen, including nulls.
    @exclusivity(unchecked) private(set) var count = 0
    private(set) var nulls = 0
    @exclusivity(unchecked) private(set) var scalars = ScalarShape()
    private(set) var objects: ObjectShape?
    private(set) var singleObjects = 0
    /// Arrays of objects that are not empty.
    private(set) var objectLists = 0
    private(set) var emptyLists = 0
    /// Arrays of values, and mixed ones.
    private(set) var otherLists = 0
    /// Objects that are nested too deep to be observed.
    private(set) var deepObjects = 0
    /// Whether a value occurs twice; nil where that is not observed.
    @exclusivity(unchecked) private(set) var distinct: DistinctValues?
    /// The paths to values in objects with one key that begins with `$`, such as MongoDB's `{"$oid": "5f…"}`.
    private(set) var wrappers: [[String]] = []
    /// Values that are wrapped so.
    private var wrapped = 0

    init(isTracked: Bool) { distinct = isTracked ? DistinctValues() : nil }

    /// - Returns: a hash of a scalar value or of a list of them; nil for other values, and where no row is open for it.
    func observe(_ value: JSONValue, _ owner: ObjectShape) -> Int? {
        count += 1
        switch value.kind {
        case .null:
            nulls += 1
            return owner.rows.isOpen ? JSONValue.sampleHash(of: value.bytes) : nil
        case .object: return observe(object: value, owner)
        case .array: return observe(list: value, owner)
        default: return observe(scalar: value, owner)
        }
    }

    /// - Parameter isNumber: the value is a number, though it may be written as a text.
    private func observe(scalar value: JSONValue, _ owner: ObjectShape, isNumber: Bool = false) -> Int? {
        if isNumber { scalars.observe(number: value.bytes) } else { scalars.observe(value) }
        guard owner.rows.isOpen || distinct?.isCounting ?? false else { return nil }
        let hash = JSONValue.sampleHash(of: value.bytes)
        distinct?.insert(hash, owner.rows.budget)
        return hash
    }

    private func observe(object: JSONValue, _ owner: ObjectShape) -> Int? {
        if let (path, inner) = unwrapped(object) {
            if !wrappers.contains(path) { wrappers.append(path) }
            wrapped += 1
            return observe(scalar: inner, owner, isNumber: path.last!.hasPrefix("$number") && inner.isJSONNumber)
        }
        singleObjects += 1
        nested(in: owner, isSingle: owner.isSingle)?.observe(object)
        return nil
    }

    private func observe(list: JSONValue, _ owner: ObjectShape) -> Int? {
        guard list.elements.allSatisfy({ $0.kind == .object }) else {
            otherLists += 1
            return owner.rows.isOpen ? JSONValue.sampleHash(of: list.bytes) : nil
        }
        guard list.elements.contains(where: { _ in true }) else {
            emptyLists += 1
            return nil
        }
        objectLists += 1
        if let shape = nested(in: owner, isSingle: false) {
            for element in list.elements { shape.observe(element, inList: objectLists) }
        }
        return nil
    }

    private func nested(in owner: ObjectShape, isSingle: Bool) -> ObjectShape? {
        guard owner.depth < ObjectShape.deepest else {
            deepObjects += 1
            return nil
        }
        if objects == nil {
            objects = ObjectShape(
                depth: owner.depth + 1, isSingle: isSingle, readsTexts: owner.readsTexts, budget: owner.rows.budget)
        }
        return objects
    }

    private static let mostWrappers = 4

    private func unwrapped(_ object: JSONValue) -> (path: [String], inner: JSONValue)? {
        guard singleObjects == 0, objectLists == 0 else { return nil }
        var (path, value) = ([String](), object)
        while value.kind == .object, path.count < 2 {
            var members = value.members
            guard let only = members.next(), members.next() == nil, only.key.bytes.first == UInt8(ascii: "$")
            else { return nil }
            path.append(String(decoding: only.key.bytes, as: UTF8.self))
            value = only.value
        }
        guard value.kind == .string || value.kind == .number,
            wrappers.contains(path) || wrappers.count < Self.mostWrappers
        else { return nil }
        return (path, value)
    }

    func merge(_ other: PropertyShape) {
        count += other.count
        nulls += other.nulls
        scalars.merge(other.scalars)
        singleObjects += other.singleObjects
        objectLists += other.objectLists
        emptyLists += other.emptyLists
        otherLists += other.otherLists
        deepObjects += other.deepObjects
        wrappers += other.wrappers.filter { !wrappers.contains($0) }
        wrapped += other.wrapped
        distinct = other.distinct.flatMap { distinct?.merged(with: $0) }
        guard let theirs = other.objects else { return }
        if let objects { objects.merge(theirs) } else { objects = theirs }
    }

    /// Other values will be observed as those of that shape.
    func redirect(to shape: ObjectShape) { objects = shape }

    /// The key paths of the values, for those at that path: in their wrappers, or there.
    func paths(at path: [String]) -> [[String]] {
        wrappers.map { path + $0 } + (wrapped < scalars.count || wrappers.isEmpty ? [path] : [])
    }

    var hasObjects: Bool { objects != nil && singleObjects + objectLists > 0 }
    /// An array, of anything.
    var hasLists: Bool { objectLists + emptyLists + otherLists > 0 }

    /// Single objects, or arrays of objects, and nothing else.
    var isObjects: Bool { hasObjects && otherLists == 0 && deepObjects == 0 && scalars.count == 0 }

    /// The values may be an identity: whole numbers or texts, each of them present.
    var mayIdentify: Bool { nonidentityReason(among: count) == nil }

    /// The reason why the values identify nothing, as the end of a sentence; nil where they may.
    ///
    /// - Parameter objects: objects that may have the key.
    func nonidentityReason(among objects: Int) -> String? {
        if hasObjects || hasLists || deepObjects > 0 { return "its values are objects or lists" }
        if count < objects || nulls > 0 { return "it is missing or null in \(objects - count + nulls) of \(objects)" }
        if scalars.emptyTexts > 0 { return "\(scalars.emptyTexts) of its values are empty" }
        if scalars.longestText > Self.longestKey {
            return "one of its values has \(scalars.longestText) bytes, and \(Self.longestKey) are allowed"
        }
        if scalars.isKey { return nil }
        let kind = scalars.areBooleans ? "booleans" : scalars.areNumbers ? "no whole numbers" : "of several kinds"
        return "its values are \(kind); whole numbers or texts identify"
    }

    /// Bytes of a text that may be a key.
    private static let longestKey = 512
}

extension JSONValue {
    /// Equal for the same text, in one run of the program. As identities, 5 and "5" are the same.
    fileprivate static func sampleHash(of bytes: UnsafeBufferPointer<UInt8>) -> Int {
        var hasher = Hasher()
        hasher.combine(bytes: UnsafeRawBufferPointer(bytes))
        return hasher.finalize()
    }

    fileprivate var isJSONNumber: Bool { NumberText(bytes)?.isJSON(bytes) ?? false }
}

/// Whether the values at a key are distinct. It stops counting when they are not, and when the budget ends.
struct DistinctValues {
    /// So many repetitions are enough.
    private static let mostRepetitions = 64

    private var values: Set<Int> = []
    private(set) var repetitions = 0
    /// More values than are compared.
    private var isCut = false

    /// No value repeats an earlier one, as far as they are compared.
    var hasNoRepetition: Bool { repetitions == 0 }

    /// All values differ from each other.
    var areUnique: Bool { repetitions == 0 && !isCut && !values.isEmpty }

    /// Further values are compared.
    var isCounting: Bool { repetitions <= Self.mostRepetitions && !isCut }

    mutating func insert(_ hash: Int, _ budget: EvidenceBudget) {
        guard isCounting else { return }
        if !values.insert(hash).inserted { repetitions += 1 } else { isCut = !budget.takeValue() }
        if !isCounting { values = [] }
    }

    func merged(with other: DistinctValues) -> DistinctValues {
        var merged = self
        merged.repetitions += other.repetitions
        for value in other.values where !merged.values.insert(value).inserted { merged.repetitions += 1 }
        merged.isCut = merged.isCut || other.isCut
        return merged
    }
}

/// The common shape of the samples' objects at one position.
final class ObjectShape {
    /// Keys of nested objects that are observed one by one; the values of all further keys are observed together.
    static let mostKeys = 300
    /// The same for the records themselves: the maximum columns of a table.
    static let mostRecordKeys = 1_900
    /// The maximum depth of nested objects; deeper ones are stored as JSON.
    static let deepest = 12

    /// Objects that were seen.
    @exclusivity(unchecked) private(set) var count = 0
    /// In the order in which they were seen first.
    private(set) var keys: [String] = []
    /// By the index of their key.
    @exclusivity(unchecked) private(set) var properties: [PropertyShape] = []
    /// The values of keys beyond the limit.
    private(set) var further: PropertyShape?
    @exclusivity(unchecked) private(set) var rows: RowSample
    /// By the index of their key, the columns of ``rows``; nil for keys that are not compared.
    @exclusivity(unchecked) private(set) var columns: [Int?] = []
    private var columnCount = (plain: 0, named: RowSample.plainColumns)
    let depth: Int
    /// There is one of these objects at most in each record, so a value that is unique here is unique among the records.
    let isSingle: Bool
    /// The values are of a format that has nothing but texts.
    let readsTexts: Bool
    /// Keys that a person says identify the objects.
    let givenKeys: Set<String>
    /// The entity of the model that the samples extend; nil for a new one.
    var known: Int?
    /// Nil for objects with the properties of an entity. It is decided once, as mappings depend on it.
    private(set) lazy var map = ShapeMap(self)
    /// The objects under all keys of a dictionary together. Their shapes are merged, so this must be done once.
    lazy var mapValues: ObjectShape = {
        let all = ObjectShape(depth: depth + 1, isSingle: false, readsTexts: readsTexts, budget: rows.budget)
        for property in properties + [further].compactMap({ $0 }) {
            if let objects = property.objects { all.merge(objects) }
        }
        return all
    }()
    /// By bytes: keys that differ only in Unicode's normal form are different keys.
    private var indices: [[UInt8]: Int] = [:]
    @exclusivity(unchecked) private var keyBytes: [[UInt8]] = []

    init(
        depth: Int, isSingle: Bool, readsTexts: Bool = false, givenKeys: Set<String> = [],
        budget: EvidenceBudget = EvidenceBudget()
    ) {
        self.givenKeys = givenKeys
        self.depth = depth
        self.readsTexts = readsTexts
        self.isSingle = isSingle
        rows = RowSample(budget)
    }

    subscript(key: String) -> PropertyShape? { index(of: key).map { properties[$0] } }

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
                rows.note(key.bytes, value.bytes)
                continue
            }
            expected = index + 1
            let hash = properties[index].observe(value, self)
            guard rows.isOpen else { continue }
            if let column = columns[index] {
                rows.note(hash ?? JSONValue.sampleHash(of: value.bytes), at: column)
            } else {
                rows.note(key.bytes, value.bytes)
            }
        }
    }

    /// The index of a key, which is new perhaps; nil when the shape has too many keys.
    ///
    /// - Parameter expected: the likely index: objects usually have their keys in one order.
    private func index(of key: JSONValue, expected: Int) -> Int? {
        if expected < keyBytes.count, keyBytes[expected].withUnsafeBufferPointer({ key.hasBytes($0) }) {
            return expected
        }
        let bytes = Array(key.bytes)
        if let index = indices[bytes] { return index }
        guard keys.count < (depth == 0 ? Self.mostRecordKeys : Self.mostKeys) else { return nil }
        return add(bytes)
    }

    private func add(_ key: [UInt8]) -> Int {
        let name = String(decoding: key, as: UTF8.self)
        indices[key] = keys.count
        keys.append(name)
        keyBytes.append(key)
        let isNamed = IdentityName.isPossible(name) || givenKeys.contains(name)
        properties.append(PropertyShape(isTracked: isNamed || isSingle && keys.count == 1))
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

    /// No object has the value of an earlier one at the key, as far as was seen.
    func isWithoutRepetition(_ key: String) -> Bool {
        index(of: key).flatMap { columns[$0] }.map { rows.repetitions(at: [$0]).all == 0 } ?? false
    }

    /// The columns of values that are others in each version of an object.
    var versionColumns: [Int] {
        keys.indices.compactMap { IdentityName.isVersion(keys[$0]) ? columns[$0] : nil }
    }

    /// How many objects repeat the identity of an earlier one and have other values, that are no later version.
    ///
    /// - Parameter identity: by part, the key paths of its attribute.
    func contradictions(of identity: [[[String]]]) -> Int {
        let parts = identity.map { paths in
            keys.indices.first { properties[$0].paths(at: [keys[$0]]).contains(where: paths.contains) }
        }
        let columns = parts.compactMap { $0.flatMap { self.columns[$0] } }
        guard !columns.isEmpty, columns.count == identity.count else { return 0 }
        let (all, different) = rows.repetitions(at: columns, versions: versionColumns)
        guard all == 0, rows.isCut, parts.count == 1, let part = parts[0] else { return different }
        return properties[part].distinct?.repetitions ?? 0
    }

    /// How many objects have no value for a part of the identity; 0 where its keys are deeper in them.
    ///
    /// - Parameter identity: by part, the key paths of its attribute.
    func missing(of identity: [[[String]]]) -> Int {
        let counts = identity.map { paths in
            guard paths.allSatisfy({ $0.count == 1 }) else { return 0 }
            let values = paths.compactMap { index(of: $0[0]) }.map { properties[$0].count - properties[$0].nulls }
            return max(0, count - values.reduce(0, +))
        }
        return counts.max() ?? 0
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

/// The evidence of all samples together, so that hostile ones have no more of it.
final class EvidenceBudget {
    @exclusivity(unchecked) private var rows: Int
    @exclusivity(unchecked) private var values: Int

    init(rows: Int = 300_000, values: Int = 6_000_000) { (self.rows, self.values) = (rows, values) }

    func takeRow() -> Bool {
        rows -= 1
        return rows >= 0
    }

    func takeValue() -> Bool {
        values -= 1
        return values >= 0
    }
}

/// Hashes of the values of the first objects at a position, to see which keys determine the others.
///
/// Memory: 8 bytes for each object and column that is used, of at most ``mostRows`` objects here and 300,000 in all.
struct RowSample {
    /// Only so many keys are compared one by one.
    static let width = 32
    /// The first columns are those of any keys, the others those of keys that may identify.
    static let plainColumns = 16
    static let mostRows = 100_000

    /// By column, for each object up to the last one with a value; 0 where it has none. The last column is a hash of all other
    /// values.
    private var values = [[Int]](repeating: [], count: width + 1)
    /// By object, the number of the array that holds it; 0 for a single object.
    private var lists: [Int32] = []
    private(set) var isOpen = false
    let budget: EvidenceBudget

    init(_ budget: EvidenceBudget) { self.budget = budget }

    var count: Int { lists.count }
    /// Objects that were not recorded.
    private(set) var isCut = false

    mutating func begin(inList list: Int?) {
        isOpen = count < Self.mostRows && budget.takeRow()
        guard isOpen else { return isCut = true }
        lists.append(Int32(truncatingIfNeeded: list ?? 0))
    }

    /// Makes room for a value of the object that has begun.
    private mutating func extend(_ column: Int) {
        while values[column].count < count { values[column].append(0) }
    }

    mutating func note(_ hash: Int, at column: Int) {
        guard isOpen else { return }
        extend(column)
        values[column][count - 1] = Self.present(hash)
    }

    /// Adds a value without a column, in any order of the keys.
    mutating func note(_ key: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>) {
        guard isOpen else { return }
        var hasher = Hasher()
        hasher.combine(bytes: UnsafeRawBufferPointer(key))
        hasher.combine(bytes: UnsafeRawBufferPointer(value))
        extend(Self.width)
        values[Self.width][count - 1] &+= hasher.finalize()
    }

    private static func present(_ hash: Int) -> Int { hash == 0 ? 1 : hash }

    /// - Parameter columns: by column of the other sample, that of this one.
    mutating func merge(_ other: RowSample, _ columns: [Int?]) {
        isCut = isCut || other.isCut
        lists.reserveCapacity(count + other.count)
        let firstList = (lists.max() ?? 0) + 1
        for row in 0..<other.count {
            begin(inList: other.lists[row] == 0 ? nil : Int(firstList + other.lists[row]))
            guard isOpen else { return }
            for (column, own) in columns.enumerated() {
                guard let own else { continue }
                extend(own)
                values[own][count - 1] = other.value(row, column)
            }
        }
        isOpen = false
    }

    private func value(_ row: Int, _ column: Int) -> Int { row < values[column].count ? values[column][row] : 0 }

    /// Values that both objects have are equal.
    ///
    /// - Parameter pairs: the columns that are compared, here and in the other sample.
    private func agrees(_ row: Int, with other: RowSample, _ otherRow: Int, _ pairs: [(Int, Int)]) -> Bool {
        pairs.allSatisfy { column, otherColumn in
            let (mine, theirs) = (value(row, column), other.value(otherRow, otherColumn))
            return mine == 0 || theirs == 0 || mine == theirs
        }
    }

    /// How many objects repeat the values of an earlier one at some keys, and how many of these have other values than it.
    ///
    /// - Parameter versions: columns of values that are others in each version of an object.
    func repetitions(at columns: [Int], versions: [Int] = []) -> (all: Int, different: Int) {
        let pairs = values.indices.filter { !values[$0].isEmpty }.map { ($0, $0) }
        var first: [[Int]: Int] = [:]
        var (all, different) = (0, 0)
        for row in 0..<count {
            let key = columns.map { value(row, $0) }
            guard !key.contains(0) else { continue }
            guard let earlier = first[key] else {
                first[key] = row
                continue
            }
            all += 1
            let isVersion = versions.contains {
                value(row, $0) != 0 && value(earlier, $0) != 0 && value(row, $0) != value(earlier, $0)
            }
            if !isVersion, !agrees(row, with: self, earlier, pairs) { different += 1 }
        }
        return (all, different)
    }

    /// No two objects of one array have the same value at that key.
    func isUniqueInLists(at column: Int) -> Bool {
        guard count > 0 else { return false }
        struct Element: Hashable {
            let list: Int32
            let key: Int
        }
        var seen: Set<Element> = []
        return (0..<count).allSatisfy {
            lists[$0] == 0 || seen.insert(Element(list: lists[$0], key: value($0, column))).inserted
        }
    }

    /// The whole numbers at a key number the objects of each array, from 0 or 1.
    func areListPositions(at column: Int) -> Bool {
        guard lists.contains(where: { $0 != 0 }) else { return false }
        return (0...1).contains { start in
            var (position, list) = (start, Int32(-1))
            return (0..<count).allSatisfy { row in
                position = lists[row] == list ? position + 1 : start
                list = lists[row]
                let digits = Array("\(position)".utf8)
                let hash = digits.withUnsafeBufferPointer { JSONValue.sampleHash(of: $0) }
                return value(row, column) == Self.present(hash)
            }
        }
    }

    /// Objects of both samples with the same value at a key have the same other values.
    ///
    /// - Parameter columns: by column of the other sample, that of this one; nil where this one has none.
    func agrees(with other: RowSample, _ columns: [Int?], at column: Int) -> Bool {
        guard let otherColumn = columns.firstIndex(of: column) else { return true }
        var first: [Int: Int] = [:]
        for row in 0..<count where first[value(row, column)] == nil { first[value(row, column)] = row }
        let pairs = columns.enumerated().compactMap { theirs, own in own.map { (theirs, $0) } }
        return (0..<other.count).allSatisfy { row in
            guard let earlier = first[other.value(row, otherColumn)] else { return true }
            return other.agrees(row, with: self, earlier, pairs)
        }
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
        var seen: Set<[Int]> = []
        for row in 0..<count {
            let key = columns.map { value(row, $0) }
            guard !key.contains(0), seen.insert(key).inserted else { return false }
        }
        return true
    }
}
