internal import BrokerJSON
internal import BrokerStaging
internal import BrokerStore

extension Job {
    /// The hash of what the job does: of `onInvalid`, `unknown`, the operations, in whichever form they were sent, and the
    /// bookmark.
    ///
    /// Texts and names count as strings; a number, an array or an object counts byte by byte as it was sent, with the white
    /// space inside. The job's id, `tag`, `reply`, `notify`, `lenient` and unknown fields do not count.
    var contentHash: JobHash {
        withExtendedLifetime(document) {
            var hasher = FieldHasher()
            hasher.add((policy == .skip ? 1 : 0) | (refusesUnknownKeys ? 2 : 0) | (bookmark == nil ? 0 : 4))
            hasher.add(UInt64(operations.count))
            for operation in operations { hasher.add(operation) }
            if let bookmark { hasher.add(bookmark) }
            return hasher.finish()
        }
    }
}

extension FieldHasher {
    fileprivate mutating func add(_ operation: JobOperation) {
        add(operation.entity)
        switch operation.action {
        case .process(let object):
            add(1)
            add(object)
            add(operation.json)
        case .relate(let object, let relationship):
            add(2)
            add(object)
            add(relationship)
            add(operation.json)
        case .sync(let predicate, let arguments, let actions, let part):
            add(3)
            add(predicate, arguments)
            add((actions.inserts ? 1 : 0) | (actions.updates ? 2 : 0) | (actions.deletes ? 4 : 0))
            add(part == nil ? 0 : part?.isLast == true ? 2 : 1)
            add(part?.id ?? "")
            add(operation.json)
        case .map(let mapping, let path):
            add(4)
            add(mapping)
            add(path)
            add(operation.json)
        case .delete:
            add(5)
            add(operation.json)
        case .deleteMatching(let predicate, let arguments):
            add(6)
            add(predicate, arguments)
        }
    }

    fileprivate mutating func add(_ bookmark: Bookmark) {
        add(bookmark.name)
        add(bookmark.value == nil ? 0 : 1)
        add(bookmark.value ?? "")
    }

    private mutating func add(_ predicate: String?, _ arguments: JSONValue?) {
        add(predicate == nil ? 0 : 1)
        add(predicate ?? "")
        add(arguments)
    }

    private mutating func add(_ value: JSONValue?) {
        // No kind has this number.
        guard let value else { return add(UInt64.max) }
        add(UInt64(value.kind.rawValue))
        add(UnsafeRawBufferPointer(value.bytes))
    }
}
