internal import BrokerModel

/// A record or bare key of an entity with unique values that is inside another object's record. If the merge excludes
/// that object because of its unique values, the nested record or key does not count.
package struct StagedNesting: Sendable {
    /// Offset of the nested record or key.
    package let offset: UInt32
    /// The nearest enclosing object whose entity has unique values.
    package let entity: Int
    package internal(set) var row: Int
    /// Offset of that object's record.
    package let aroundOffset: UInt32
}
