internal import BrokerJSON

/// The samples' values at one key.
final class PropertyShape {
    /// Values that were seen, including nulls.
    private(set) var count = 0
    private(set) var nulls = 0
    private(set) var scalars = ScalarShape()
    private(set) var objects: ObjectShape?
    private(set) var singleObjects = 0
    /// Arrays of objects that are not empty.
    private(set) var objectLists = 0
    private(set) var emptyLists = 0
    /// Arrays of values, and mixed ones.
    private(set) var otherLists = 0
    /// Objects that are nested too deep to be observed.
    private(set) var deepObjects = 0
    private(set) var emptyTexts = 0
    private(set) var longestText = 0
    /// Whether a value occurs twice; nil where that is not observed.
    private(set) var distinct: DistinctValues?
    /// The values are objects with one key that begins with `$`, such as MongoDB's `{"$oid": "5f…"}`.
    private(set) var wrapper: [UInt8]?

    init(isTracked: Bool) { distinct = isTracked ? DistinctValues() : nil }

    /// - Returns: a hash of a scalar value or of a list of them; nil for other values and null.
    func observe(_ value: JSONValue, _ owner: ObjectShape) -> Int? {
        count += 1
        switch value.kind {
        case .null: nulls += 1
        case .object: return observe(object: value, owner)
        case .array: return observe(list: value, owner)
        default: return observe(scalar: value, owner)
        }
        return nil
    }

    private func observe(scalar value: JSONValue, _ owner: ObjectShape) -> Int {
        scalars.observe(value)
        if value.kind == .string {
            let length = value.bytes.count
            if length == 0 { emptyTexts += 1 }
            longestText = max(longestText, length)
        }
        let hash = value.sampleHash
        distinct?.insert(hash, owner.rows.budget)
        return hash
    }

    private func observe(object: JSONValue, _ owner: ObjectShape) -> Int? {
        if let inner = wrapped(object) { return observe(scalar: inner, owner) }
        singleObjects += 1
        nested(in: owner, isSingle: owner.isSingle)?.observe(object)
        return nil
    }

    private func observe(list: JSONValue, _ owner: ObjectShape) -> Int? {
        var (hasObjects, hasOthers) = (false, false)
        for element in list.elements {
            if element.kind == .object { hasObjects = true } else { hasOthers = true }
        }
        switch (hasObjects, hasOthers) {
        case (false, false): emptyLists += 1
        case (true, false):
            objectLists += 1
            if let shape = nested(in: owner, isSingle: false) {
                for element in list.elements { shape.observe(element, inList: objectLists) }
            }
        default:
            otherLists += 1
            return list.sampleHash
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

    private func wrapped(_ object: JSONValue) -> JSONValue? {
        var members = object.members
        guard singleObjects == 0, let only = members.next(), members.next() == nil,
            only.key.bytes.first == UInt8(ascii: "$"), only.value.kind == .string || only.value.kind == .number
        else { return nil }
        let key = Array(only.key.bytes)
        guard wrapper == nil || wrapper == key, wrapper != nil || scalars.count == 0 else { return nil }
        wrapper = key
        return only.value
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
        emptyTexts += other.emptyTexts
        longestText = max(longestText, other.longestText)
        wrapper = wrapper ?? other.wrapper
        distinct = other.distinct.flatMap { distinct?.merged(with: $0) }
        guard let theirs = other.objects else { return }
        if let objects { objects.merge(theirs) } else { objects = theirs }
    }

    /// Other values will be observed as those of that shape.
    func redirect(to shape: ObjectShape) { objects = shape }

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
        if emptyTexts > 0 { return "\(emptyTexts) of its values are empty" }
        if longestText > Self.longestKey {
            return "one of its values has \(longestText) bytes, and \(Self.longestKey) are allowed"
        }
        if scalars.isKey { return nil }
        let kind = scalars.areBooleans ? "booleans" : scalars.areNumbers ? "no whole numbers" : "of several kinds"
        return "its values are \(kind); whole numbers or texts identify"
    }

    /// Bytes of a text that may be a key.
    private static let longestKey = 512
}

extension JSONValue {
    /// Equal for scalars of one kind and text, in one run of the program.
    var sampleHash: Int {
        var hasher = Hasher()
        hasher.combine(kind)
        hasher.combine(bytes: UnsafeRawBufferPointer(bytes))
        return hasher.finalize()
    }

    static func sampleHash(ofNumber digits: UnsafeBufferPointer<UInt8>) -> Int {
        var hasher = Hasher()
        hasher.combine(Kind.number)
        hasher.combine(bytes: UnsafeRawBufferPointer(digits))
        return hasher.finalize()
    }
}

/// Whether the values at a key are distinct. It stops counting when they are not, and when the budget ends.
struct DistinctValues {
    /// So many repetitions are enough.
    private static let mostRepetitions = 64

    private var values: Set<Int> = []
    private(set) var repetitions = 0
    /// More values than are compared.
    private var isCut = false

    /// All values differ from each other.
    var areUnique: Bool { repetitions == 0 && !isCut && !values.isEmpty }

    mutating func insert(_ hash: Int, _ budget: EvidenceBudget) {
        guard repetitions <= Self.mostRepetitions, !isCut else { return }
        if !values.insert(hash).inserted { repetitions += 1 } else { isCut = !budget.takeValue() }
        if repetitions > Self.mostRepetitions || isCut { values = [] }
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
