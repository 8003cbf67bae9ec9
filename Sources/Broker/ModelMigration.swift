/// The changes that a changed model makes to a store.
public struct ModelMigration: Sendable, Hashable {
    /// In the order of the store's model, then what is new. Empty when the store fits.
    public var changes: [Change]

    public init(changes: [Change]) { self.changes = changes }

    /// Whether any change is refused, so that nothing is changed at all.
    public var isRefused: Bool { changes.contains { $0.kind == .refused } }

    /// A difference between the store and the model.
    public struct Change: Sendable, Hashable {
        public var kind: Kind
        /// An entity, `Entity.attribute`, a table or `table.column`.
        public var subject: String
        /// The state in the store and in the model; for people.
        public var message: String
        /// The remedy for a refused change; for people.
        public var remedy: String?
        /// In a dry run: what goes when the part is dropped; for a refused change, what would go.
        public var loss: Loss?

        public init(kind: Kind, subject: String, message: String, remedy: String? = nil, loss: Loss? = nil) {
            self.kind = kind
            self.subject = subject
            self.message = message
            self.remedy = remedy
            self.loss = loss
        }
    }

    /// The treatment of a difference.
    public struct Kind: RawRepresentable, Sendable, Hashable {
        /// The protocol's word.
        public let rawValue: String

        public init(rawValue: String) { self.rawValue = rawValue }

        /// Nothing is lost.
        public static let migrated = Kind(rawValue: "migrated")
        /// The part stays in the file, unused.
        public static let kept = Kind(rawValue: "kept")
        /// The part is deleted with its values.
        public static let dropped = Kind(rawValue: "dropped")
        public static let refused = Kind(rawValue: "refused")
    }

    /// Rows or values that go with a part.
    public struct Loss: Sendable, Hashable {
        /// The protocol's word: `objects`, `values` or `links`.
        public var kind: String
        public var count: Int64
        /// Ten at most, for people: the key of an object, and what it has.
        public var examples: [String]

        public init(kind: String, count: Int64, examples: [String]) {
            self.kind = kind
            self.count = count
            self.examples = examples
        }
    }
}
