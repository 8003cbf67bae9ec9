public import Broker
internal import BrokerModel
internal import BrokerStaging

extension EmbeddedBroker {
    /// The program's own code in the conversion of records to objects, for rules that the model cannot express.
    ///
    /// ```
    /// record ─choose─▶ mapping ─rewrite─▶ record ─convert─▶ values ─validate─▶ object
    /// ```
    ///
    /// Handlers get JSON and return JSON. They are called on threads of the broker, several at once, and must not
    /// block. A record may be passed to them more than once (when a job is staged again without rejected records), so
    /// they must return the same result for the same record. An error of a handler rejects the record, or fails the
    /// job, according to its `onInvalid`; the error's description becomes the message, so write it for people.
    ///
    /// A handler of an entity applies to its subentities, too, unless they have handlers of their own.
    public struct Handlers: Sendable {
        /// A chooser's decision about a record.
        public struct Choice: Sendable, Hashable {
            fileprivate enum Decision: Hashable {
                case mapping(String)
                case decline
                case asModelled
            }

            fileprivate let decision: Decision

            /// The mapping of that name.
            public static func mapping(_ name: String) -> Choice { Choice(decision: .mapping(name)) }

            /// The record is ignored without a warning.
            public static let decline = Choice(decision: .decline)
            /// As the model says.
            public static let asModelled = Choice(decision: .asModelled)
        }

        fileprivate var choosers: [String: @Sendable (RawJSON) throws -> Choice] = [:]
        fileprivate var rewriters: [String: @Sendable (RawJSON) throws -> RawJSON?] = [:]
        fileprivate var validators: [String: @Sendable (RawJSON) throws -> Void] = [:]
        fileprivate var conversions: [String: [String: @Sendable (RawJSON) throws -> RawJSON]] = [:]

        /// No handlers.
        public init() {}

        /// Chooses a mapping for each record that the model gives to this one (RestKit's dynamic mapping by a block).
        ///
        /// - Parameter chooser: gets the record unchanged. The mapping that it names is asked in turn, if it has a
        ///   chooser or a `select`. An error is `unmappable`.
        public mutating func addChooser(
            forMapping mapping: String, _ chooser: @escaping @Sendable (RawJSON) throws -> Choice
        ) {
            choosers[mapping] = chooser
        }

        /// Rewrites each record of an entity before it is mapped (`willImport` of MagicalRecord and Sync).
        ///
        /// - Parameter rewriter: gets the record without its wrapper, and returns the object that replaces it; nil
        ///   ignores the record without a warning. Nested records are rewritten separately, after the enclosing one. An
        ///   error is `invalidValue`.
        public mutating func addRewriter(
            for entity: String, _ rewriter: @escaping @Sendable (RawJSON) throws -> RawJSON?
        ) {
            rewriters[entity] = rewriter
        }

        /// Looks at what each record of an entity brings, before it becomes an object (RestKit's key-value validation).
        ///
        /// - Parameter validator: gets an object of attribute names and the values that the record brings, converted; of what
        ///   it does not bring there is nothing. An error is `validationFailed`.
        public mutating func addValidator(
            for entity: String, _ validator: @escaping @Sendable (RawJSON) throws -> Void
        ) {
            validators[entity] = validator
        }

        /// Converts the values of an attribute before the model's own conversion (Groot's named transformers).
        ///
        /// - Parameter conversion: gets the value as it came, null too, and gives the one in its place. Also for bare keys.
        ///   An error is `invalidValue`, whatever the attribute's `onInvalid` says.
        public mutating func addConverter(
            for attribute: String, of entity: String, _ conversion: @escaping @Sendable (RawJSON) throws -> RawJSON
        ) {
            conversions[entity, default: [:]][attribute] = conversion
        }
    }
}

extension EmbeddedBroker.Handlers {
    /// By the model's indices; nil where there are none.
    ///
    /// - Throws: what the model does not have.
    func hooks(for model: Model) throws(ModelError) -> StagingHooks? {
        let isEmpty = choosers.isEmpty && rewriters.isEmpty && validators.isEmpty && conversions.isEmpty
        guard !isEmpty else { return nil }
        var faults: [String] = []
        func index(ofEntity name: String, _ kind: String) -> Int? {
            let index = model.index(ofEntity: name)
            if index == nil { faults.append("a handler \(kind) \(name), and the model has no such entity") }
            return index
        }
        var hooks = StagingHooks()
        for (name, rewriter) in rewriters {
            guard let entity = index(ofEntity: name, "rewrites") else { continue }
            hooks.rewriters[entity] = { try rewriter(RawJSON($0))?.bytes }
        }
        for (name, validator) in validators {
            guard let entity = index(ofEntity: name, "validates") else { continue }
            hooks.validators[entity] = { try validator(RawJSON($0)) }
        }
        for (name, own) in conversions {
            guard let entity = index(ofEntity: name, "converts values of") else { continue }
            for (attributeName, conversion) in own {
                guard let attribute = model.entities[entity].index(ofAttribute: attributeName) else {
                    faults.append("a handler converts \(attributeName) of \(name), which has no such attribute")
                    continue
                }
                hooks.conversions[entity, default: [:]][attribute] = { try conversion(RawJSON($0)).bytes }
            }
        }
        for (name, chooser) in choosers {
            guard let mapping = model.index(ofMapping: name) else {
                faults.append("a handler chooses for the mapping \(name), and the model has no such mapping")
                continue
            }
            hooks.choosers[mapping] = { record in
                switch try chooser(RawJSON(record)).decision {
                case .asModelled: return .asModelled
                case .decline: return .decline
                case .mapping(let name):
                    guard let index = model.index(ofMapping: name) else { throw UnknownMapping(name: name) }
                    return .mapping(index)
                }
            }
        }
        guard faults.isEmpty else { throw ModelError(faults: faults.sorted().map { ModelFault($0, at: .unknown) }) }
        return hooks
    }
}

private struct UnknownMapping: Error, CustomStringConvertible {
    let name: String

    var description: String { "A handler chose the mapping \(name), which the model does not have." }
}
