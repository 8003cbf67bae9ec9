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
