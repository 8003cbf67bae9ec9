/// The rows or values that go when a part of the model is dropped.
package struct StoreLoss: Sendable, Equatable {
    package enum Kind: String, Sendable {
        case objects, values, links
    }

    package let kind: Kind
    package let count: Int64
    /// Some of them, for people: the key of an object, and what it has, in SQL.
    package let examples: [String]

    package init(_ kind: Kind, count: Int64, examples: [String]) {
        self.kind = kind
        self.count = count
        self.examples = examples
    }
}
