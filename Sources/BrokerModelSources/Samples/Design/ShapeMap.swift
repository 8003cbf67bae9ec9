internal import BrokerJSON

/// An object whose keys are values: `{"afn": {…}, "aed": {…}}`.
struct ShapeMap {
    enum Content {
        /// The objects under the keys.
        case objects(isShared: Bool)
        /// Plain values, or values of several kinds.
        case values
    }

    let content: Content

    private static let leastLikeness = 0.5
    /// Keys of a single object that cannot be names of properties, because there are so many.
    private static let leastKeys = 8
    /// The same for keys that look like identifiers.
    private static let leastCodes = 3
    /// For plain values: a table may have so many columns.
    private static let leastValues = 40
    private static let mostFilled = 0.5
    /// Objects of equal keys that are equal by chance prove nothing.
    private static let leastRepetitions = 3
    private static let leastShared = 0.2

    /// - Returns: nil for an object with the properties of an entity.
    init?(_ shape: ObjectShape) {
        let (count, keys) = (shape.count, shape.keys.count)
        guard keys > 0, count > 0 else { return nil }
        let filled = Double(shape.properties.reduce(0) { $0 + $1.count }) / Double(count * keys)
        let isMany = shape.further != nil
        let isSparse = count > 2 && filled < Self.mostFilled
        let areCodes = keys >= Self.leastCodes && shape.keys.allSatisfy(Self.isCode)
        if shape.properties.allSatisfy({ $0.isObjects && !$0.hasLists }) {
            let isLike = Self.likeness(shape) >= Self.leastLikeness
            let isMap = isMany || areCodes || (isSparse ? keys >= 5 : count <= 2 && keys >= Self.leastKeys)
            guard isMap, isLike else {
                guard isMany else { return nil }
                content = .values
                return
            }
            // Objects of one key in several parents are the same, as far as was seen.
            let repeated = shape.properties.filter { $0.count > 1 }
            let repetitions = repeated.reduce(0) { $0 + $1.count - 1 }
            let all = shape.properties.reduce(0) { $0 + $1.count }
            let isShared =
                repetitions >= Self.leastRepetitions && Double(repetitions) >= Self.leastShared * Double(all)
                && repeated.allSatisfy { property in
                    guard let objects = property.objects else { return false }
                    return objects.rows.isConstant && !objects.properties.contains(where: \.hasObjects)
                }
            content = .objects(isShared: isShared)
            return
        }
        guard isMany || keys >= Self.leastValues && (isSparse || count <= 2) else { return nil }
        content = .values
    }

    /// The objects under all keys together. Their shapes are merged, so this must be done once.
    static func values(of shape: ObjectShape) -> ObjectShape {
        let all = ObjectShape(
            depth: shape.depth + 1, isSingle: false, readsTexts: shape.readsTexts, budget: shape.rows.budget)
        for property in shape.properties + [shape.further].compactMap({ $0 }) {
            if let objects = property.objects { all.merge(objects) }
        }
        return all
    }

    /// Digits, or a code such as `USD`, a UUID, a version.
    private static func isCode(_ key: String) -> Bool {
        guard !key.isEmpty, key.utf8.allSatisfy({ $0 < 0x80 }) else { return false }
        let hasDigit = key.utf8.contains { (0x30...0x39).contains($0) }
        let hasLower = key.utf8.contains { (0x61...0x7A).contains($0) }
        return hasDigit && !hasLower || hasDigit && key.utf8.count >= 16
            || (!hasLower && (2...4).contains(key.utf8.count))
    }

    /// The mean proportion of the properties that each value has.
    private static func likeness(_ shape: ObjectShape) -> Double {
        var counts: [String: Int] = [:]
        var all = 0
        for property in shape.properties {
            guard let objects = property.objects else { continue }
            all += 1
            for key in objects.keys { counts[key, default: 0] += 1 }
        }
        guard all > 0, !counts.isEmpty else { return 0 }
        let usual = counts.values.filter { Double($0) >= Double(all) * leastLikeness }
        // Most values have the usual keys, and there are some.
        return usual.isEmpty ? 0 : Double(usual.reduce(0, +)) / Double(usual.count * all)
    }
}
