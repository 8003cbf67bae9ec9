/// The options of generated records.
package enum RecordShape: String, CaseIterable, Sendable {
    /// Eight attributes and a link by a bare key.
    case flat
    /// Eight attributes and a link to an object that is nested in the record.
    case nested
    /// An identity and attributes of which each is there or not.
    case ragged
    /// A name, two to-one links and three links of a to-many, all by bare keys.
    case links
    /// An identity and a hundred attributes.
    case wide
}

/// The identities of records, in the order of new ones.
package enum RecordKeys: String, CaseIterable, Sendable {
    /// The records' numbers.
    case ascending
    /// Integers of 53 bits in an order that looks like chance.
    case random
    /// UUIDs that look like chance.
    case uuid
}

/// The order of a record's keys.
package enum RecordKeyOrder: String, CaseIterable, Sendable {
    /// The identity first, then as the model has them.
    case declared
    /// Another for each record.
    case random
}

/// How records are made. The same options and the same number give the same record.
package struct RecordOptions: Sendable, Equatable {
    package var shape: RecordShape
    /// Attributes beside the identity, for `ragged` and `wide`.
    package var attributes: Int
    /// The probability that an attribute or a link is there.
    package var presence: Double
    /// The probability that an attribute that is there is null.
    package var nulls: Double
    package var keyOrder: RecordKeyOrder
    package var keys: RecordKeys
    package var seed: UInt64

    /// - Parameters:
    ///   - attributes: nil is 12 for `ragged` and 100 for `wide`.
    ///   - presence: nil is one half for `ragged` and 1 for the others.
    package init(
        shape: RecordShape = .nested, attributes: Int? = nil, presence: Double? = nil, nulls: Double = 0,
        keyOrder: RecordKeyOrder = .declared, keys: RecordKeys = .ascending, seed: UInt64 = 1
    ) {
        self.shape = shape
        self.attributes = attributes ?? (shape == .wide ? 100 : 12)
        self.presence = presence ?? (shape == .ragged ? 0.5 : 1)
        self.nulls = nulls
        self.keyOrder = keyOrder
        self.keys = keys
        self.seed = seed
    }
}
