/// A condition on the objects of an entity, in the protocol's subset of NSPredicate's language. The server checks it.
///
/// ```swift
/// let predicate: BrokerPredicate = "department.name == \(name) AND age IN \([30, 40])"
/// ```
///
/// `"ANY employees.age > \(30)"`, `"ALL …"`, `"NONE …"` and `"employees.@count > \(3)"` ask for the objects of a to-many
/// relationship.
///
/// An interpolated value is bound and never becomes a part of the text: text is text, dates are compared as dates, an
/// array is for `IN`, nil is null. A name that is only known at run time is interpolated as `\(key: name)`.
///
/// Predicates compose, as operands and as interpolated parts, which keep their own values:
///
/// ```swift
/// let adult: BrokerPredicate = "age >= \(18)"
/// let wanted = adult && !("email == \(nil)" || "name BEGINSWITH \(prefix)")
/// let same: BrokerPredicate = "\(adult) AND NOT (email == nil OR name BEGINSWITH \(prefix))"
/// ```
public struct BrokerPredicate: Sendable, Hashable, ExpressibleByStringInterpolation {
    /// With `%@` for each value, and `%K` for each name.
    public var format: String { didSet { connective = nil } }
    /// The values of `%@` and the names of `%K`, in their order.
    public var arguments: [RawJSON]
    /// An interpolated value that cannot be encoded; thrown when the predicate is sent.
    private(set) var fault: BrokerError?
    /// That between the parts of a format that `&&` or `||` made: further ones of the same need no parentheses, of which the server
    /// takes 200 inside each other.
    private var connective: String?

    /// All objects.
    public static let all = BrokerPredicate("TRUEPREDICATE", arguments: [])

    /// - Parameter format: a predicate without values of `%@`.
    public init(_ format: String) {
        self.format = format
        arguments = []
    }

    package init(_ format: String, arguments: [RawJSON]) {
        self.format = format
        self.arguments = arguments
    }

    public init(stringLiteral format: String) { self.init(format) }

    public init(stringInterpolation: StringInterpolation) { self = stringInterpolation.predicate }

    /// For a format that is not known when the program is written.
    ///
    /// - Parameter arguments: values as ``RawJSON/init(value:)`` takes them.
    /// - Throws: ``BrokerError/Code/notEncodable``
    public init(_ format: String, _ arguments: (any Encodable)?...) throws(BrokerError) {
        try self.init(format, values: arguments)
    }

    /// - Parameter values: as ``RawJSON/init(value:)`` takes them.
    /// - Throws: ``BrokerError/Code/notEncodable``
    public init(_ format: String, values: [(any Encodable)?]) throws(BrokerError) {
        self.init(format)
        for value in values { try bind(value) }
    }

    public static func == (one: BrokerPredicate, other: BrokerPredicate) -> Bool {
        one.format == other.format && one.arguments == other.arguments && one.fault == other.fault
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(format)
        hasher.combine(arguments)
    }

    /// The objects that match both predicates.
    public static func && (one: Self, other: Self) -> Self { joined(one, " AND ", other) }

    /// The objects that match at least one of the predicates.
    public static func || (one: Self, other: Self) -> Self { joined(one, " OR ", other) }

    /// The objects that do not match.
    public static prefix func ! (predicate: Self) -> Self {
        var negated = predicate
        negated.format = "NOT (\(predicate.format))"
        return negated
    }

    private static func joined(_ one: Self, _ connective: String, _ other: Self) -> Self {
        let formats = [one, other].map { $0.connective == connective ? $0.format : "(\($0.format))" }
        var joined = Self(formats.joined(separator: connective), arguments: one.arguments + other.arguments)
        joined.fault = one.fault ?? other.fault
        joined.connective = connective
        return joined
    }

    private mutating func bind(_ value: (any Encodable)?) throws(BrokerError) {
        guard let value else { return arguments.append(RawJSON("null")) }
        arguments.append(try RawJSON(value: value))
    }

    public struct StringInterpolation: StringInterpolationProtocol {
        fileprivate var predicate = BrokerPredicate("")

        public init(literalCapacity: Int, interpolationCount: Int) {
            predicate.format.reserveCapacity(literalCapacity + 2 * interpolationCount)
            predicate.arguments.reserveCapacity(interpolationCount)
        }

        public mutating func appendLiteral(_ text: String) { predicate.format += text }

        /// Binds a value.
        public mutating func appendInterpolation(_ value: (some Encodable)?) {
            predicate.format += "%@"
            do throws(BrokerError) {
                try predicate.bind(value)
            } catch {
                predicate.fault = predicate.fault ?? error
            }
        }

        /// Binds a JSON value, or null: `\(nil)`.
        public mutating func appendInterpolation(_ json: RawJSON?) {
            predicate.format += "%@"
            predicate.arguments.append(json ?? RawJSON("null"))
        }

        /// Inserts a predicate in parentheses, with its values.
        public mutating func appendInterpolation(_ part: BrokerPredicate) {
            predicate.format += "(\(part.format))"
            predicate.arguments += part.arguments
            predicate.fault = predicate.fault ?? part.fault
        }

        /// Binds the name of an attribute or a relationship, or a key path of them.
        public mutating func appendInterpolation(key: String) {
            predicate.format += "%K"
            predicate.arguments.append(RawJSON(string: key))
        }
    }
}
