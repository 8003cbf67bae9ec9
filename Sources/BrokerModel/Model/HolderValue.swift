/// A value that a nested record takes from its holder: the record that contains it as the value of a relationship.
///
/// It is a key path of an attribute that begins with `@parent`. No other path can be one: an `@` alone is an ordinary
/// key, as of XML's attributes, which have no keys below them.
package enum HolderValue: Sendable, Equatable {
    /// `@parent.<attribute>`: an attribute of the holder's identity.
    case attribute(String)
    /// `@parent.@index`: the record's position in the array that contains it, from 0.
    case position

    private static let first = "@parent"
    private static let positionKey = "@index"

    /// Nil for the path of an ordinary key.
    package init?(_ path: [String]) {
        guard Self.isHolderPath(path), path.count == 2 else { return nil }
        self = path[1].hasSameBytes(as: Self.positionKey) ? .position : .attribute(path[1])
    }

    package var path: [String] {
        switch self {
        case .attribute(let name): [Self.first, name]
        case .position: [Self.first, Self.positionKey]
        }
    }

    /// The key as the model writes it.
    var text: String { path.joined(separator: ".") }

    static func isHolderPath(_ path: [String]) -> Bool { path.count > 1 && path[0].hasSameBytes(as: first) }
}

extension Attribute {
    /// The value that a nested record takes from its holder; nil for an attribute of which only the record's own keys are
    /// read.
    package var holderValue: HolderValue? { keyPaths.lazy.compactMap(HolderValue.init).first }

    /// The holder's value precedes those of the record's own keys.
    package var prefersHolder: Bool { keyPaths.first.flatMap(HolderValue.init) != nil }

    /// The key paths in the record itself, most preferred first.
    package var recordPaths: [[String]] { keyPaths.filter { HolderValue($0) == nil } }
}
