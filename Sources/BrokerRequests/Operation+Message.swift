internal import Broker
internal import BrokerWire

extension Job.Operation {
    /// - Parameters:
    ///   - pointer: a JSON Pointer to the operation's fields in the message.
    ///   - isLenient: the message has `lenient`.
    ///   - levels: objects and arrays of the message around a value of the operation.
    /// - Throws: ``BrokerError/Code/invalidJSON``
    func message(
        at pointer: String, isLenient: Bool, levels: Int
    ) throws(BrokerError) -> JobMessageWriter.Operation {
        func proven(_ json: RawJSON, _ field: String) throws(BrokerError) -> ProvenJSON {
            try json.proven(at: "\(pointer)/\(field)", isLenient: isLenient, enclosingLevels: levels)
        }
        func selection(_ predicate: BrokerPredicate) throws(BrokerError) -> JobMessageWriter.Operation.Selection {
            if let fault = predicate.fault { throw fault }
            guard !predicate.arguments.isEmpty else { return .init(predicate.format) }
            let arguments = try RawJSON.proven(
                predicate.arguments, at: "\(pointer)/arguments", isLenient: isLenient, enclosingLevels: levels)
            return .init(predicate.format, arguments: arguments)
        }
        switch action {
        case .process(let json, nil): return .init(entity: entity, .process(try proven(json, "json")))
        case .process(let json, let object?):
            return .init(
                entity: entity, .process(try proven(json, "json"), object: try proven(object, "object")))
        case .relate(let json, let relationship, let object):
            return .init(
                entity: entity,
                .relate(
                    try proven(json, "json"), object: try proven(object, "object"), relationship: relationship))
        case .sync(let json, let predicate, let actions, let part):
            var permitted: OperationMessage.SyncActions = []
            for action in actions { permitted.insert(try action.message) }
            return .init(
                entity: entity,
                .sync(
                    try proven(json, "json"), try predicate.map(selection), permitted,
                    part: part.map { .init(id: $0.id, isLast: $0.isLast) }))
        case .map(let json, let reading):
            return .init(entity: "", .map(try proven(json, "json"), mapping: reading.mapping, path: reading.path))
        case .delete(let keys): return .init(entity: entity, .delete(try proven(keys, "objects")))
        case .deleteMatching(let predicate):
            return .init(entity: entity, .deleteMatching(try selection(predicate)))
        }
    }
}

extension Job.Operation.SyncAction {
    fileprivate var message: OperationMessage.SyncActions {
        get throws(BrokerError) {
            switch self {
            case .insert: .insert
            case .update: .update
            case .delete: .delete
            default: throw .unknownWord(rawValue, of: "the actions of a sync")
            }
        }
    }
}

extension BrokerError {
    static func unknownWord(_ word: String, of what: String) -> BrokerError {
        BrokerError(
            .unsupportedMessage, "The protocol does not know the word \"\(word)\" for \(what). Nothing was sent.")
    }
}
