internal import Broker
internal import BrokerWire

extension Job.Operation {
    /// - Parameters:
    ///   - pointer: a JSON Pointer to the operation's fields in the message.
    ///   - isLenient: the message has `lenient`.
    ///   - levels: objects and arrays of the message around a value of the operation.
    /// - Throws: ``BrokerError/Code/invalidJSON``, or the code by which the server would refuse the operation.
    func message(
        at pointer: String, isLenient: Bool, levels: Int
    ) throws(BrokerError) -> JobMessageWriter.Operation {
        func proven(_ json: RawJSON, _ field: String) throws(BrokerError) -> ProvenJSON {
            try json.proven(at: "\(pointer)/\(field)", isLenient: isLenient, enclosingLevels: levels)
        }
        func selection(_ predicate: BrokerPredicate) throws(BrokerError) -> JobMessageWriter.Operation.Selection {
            try predicate.check()
            guard !predicate.arguments.isEmpty else { return .init(predicate.format) }
            let arguments = try RawJSON.proven(
                predicate.arguments, at: "\(pointer)/arguments", isLenient: isLenient, enclosingLevels: levels)
            return .init(predicate.format, arguments: arguments)
        }
        try checkNames()
        let message = try message(proven, selection)
        // After the proof, so that a text that is no JSON is reported as that.
        try checkKind()
        return message
    }

    private func message(
        _ proven: (RawJSON, String) throws(BrokerError) -> ProvenJSON,
        _ selection: (BrokerPredicate) throws(BrokerError) -> JobMessageWriter.Operation.Selection
    ) throws(BrokerError) -> JobMessageWriter.Operation {
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

extension Job.Operation {
    /// The records; nil when there are only keys or a predicate.
    var records: RawJSON? {
        switch action {
        case .process(let json, _), .relate(let json, _, _), .sync(let json, _, _, _), .map(let json, _): json
        case .delete, .deleteMatching: nil
        }
    }
}

// Faults that the server would refuse whatever its model is.
extension Job.Operation {
    private func checkNames() throws(BrokerError) {
        if case .map(_, let reading) = action {
            if reading.mapping == "" { throw .refused(.unknownMapping, "The mapping's name is empty.") }
            guard let count = reading.path?.utf8.count, count > OperationMessage.maximumPathCount else { return }
            throw .refused(
                .unsupportedMessage,
                "The path of a payload has at most \(OperationMessage.maximumPathCount) bytes; this one has \(count). Give "
                    + "the path of the resource without the host.")
        }
        if entity.isEmpty { throw .refused(.unknownEntity, "The entity's name is empty.") }
        switch action {
        case .relate(_, "", _): throw .refused(.unknownRelationship, "The relationship's name is empty.")
        case .sync(_, _, _, let part?) where !JobID.byteCounts.contains(part.id.utf8.count):
            throw .refused(
                .unsupportedMessage, "The id of a sync's part has 1 to 128 bytes; this one has \(part.id.utf8.count).")
        default: break
        }
    }

    private func checkKind() throws(BrokerError) {
        switch action {
        case .process(let json, _) where !json.begins(with: "{", "["):
            throw .refused(.invalidValue, "A record is a JSON object; give one, or an array of them.")
        case .sync(let json, _, _, _) where !json.begins(with: "["):
            throw .refused(.unsupportedMessage, "A sync takes an array of records: all that there are to be.")
        default: break
        }
    }
}

extension RawJSON {
    /// Whether the first byte that is no white space is one of these.
    fileprivate func begins(with signs: Unicode.Scalar...) -> Bool {
        let first = bytes.first { ![0x20, 0x09, 0x0A, 0x0D].contains($0) }
        return signs.contains { UInt8(ascii: $0) == first }
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
    /// The error that a server would answer with.
    static func refused(_ code: Code, _ message: String) -> BrokerError {
        BrokerError(code, "\(message) Nothing was sent.")
    }

    static func unknownWord(_ word: String, of what: String) -> BrokerError {
        BrokerError(
            .unsupportedMessage, "The protocol does not know the word \"\(word)\" for \(what). Nothing was sent.")
    }
}
