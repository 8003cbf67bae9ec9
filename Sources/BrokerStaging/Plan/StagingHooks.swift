internal import BrokerModel

/// Code of the embedding program that takes part in staging. Its arguments and results are JSON text.
///
/// Threads of the coordinator call it, several at once. It must not block, and must return equal results for equal
/// arguments: a job may be staged more than once.
package struct StagingHooks: Sendable {
    /// A chooser's decision on a record.
    package enum Choice: Sendable {
        /// The mapping of that index.
        case mapping(Int)
        /// The record is ignored.
        case decline
        /// The model decides.
        case asModelled
    }

    package typealias Chooser = @Sendable ([UInt8]) throws -> Choice
    /// - Returns: the record to stage instead; nil ignores the record.
    package typealias Rewriter = @Sendable ([UInt8]) throws -> [UInt8]?
    package typealias Validator = @Sendable ([UInt8]) throws -> Void
    package typealias Conversion = @Sendable ([UInt8]) throws -> [UInt8]

    /// By mapping index.
    package var choosers: [Int: Chooser] = [:]
    /// By entity index; an entity without one inherits that of its nearest ancestor.
    package var rewriters: [Int: Rewriter] = [:]
    package var validators: [Int: Validator] = [:]
    /// By entity index and attribute index.
    package var conversions: [Int: [Int: Conversion]] = [:]

    package init() {}

    /// Returns the hooks with those that entities inherit.
    func completed(for model: Model) -> StagingHooks {
        var hooks = self
        for index in model.entities.indices {
            for ancestor in model.ancestors(of: index) {
                if hooks.rewriters[index] == nil { hooks.rewriters[index] = rewriters[ancestor] }
                if hooks.validators[index] == nil { hooks.validators[index] = validators[ancestor] }
                hooks.conversions[index, default: [:]].merge(conversions[ancestor] ?? [:]) { own, _ in own }
            }
        }
        return hooks
    }
}
