internal import BrokerJSON
internal import BrokerStaging

/// The keys of deleted objects of which the net changes need no more than a count, as text for the feed, until they
/// exceed the limit of one job: so a job may delete millions of objects.
struct CountedKeys {
    private struct List {
        /// The keys with commas between them.
        var json = JSONWriter(capacity: 0)
        /// Whether an integer is written as it is stored; nil before the first key.
        var hasIntegers: Bool?
    }

    private let entities: [EntityStatements]
    /// By the index of the objects' concrete entity; empty when the limit is exceeded.
    private var lists: [List]
    private var byteCount = 0

    init(_ entities: [EntityStatements]) {
        self.entities = entities
        lists = Array(repeating: List(), count: entities.count)
    }

    /// Whether no key is missing.
    var isComplete: Bool { byteCount <= FeedKeys.maximumBytesOfJob }

    /// - Parameter key: by which clients name the object.
    mutating func noteDeletion(_ entity: Int, _ key: StoredKey) {
        guard isComplete else { return }
        let before = lists[entity].json.count
        if let integer = key.integer, hasIntegers(entity) {
            lists[entity].json.integer(integer)
        } else {
            key.withCells { lists[entity].json.key($0, of: entities[entity].entity) }
        }
        byteCount += lists[entity].json.count - before
        if !isComplete { lists = [] }
    }

    private mutating func hasIntegers(_ entity: Int) -> Bool {
        if let known = lists[entity].hasIntegers { return known }
        let model = entities[entity].entity
        let isSo = model.isNamedByRowKey || model.singleIdentity.map { $0.type != .boolean } ?? false
        lists[entity].hasIntegers = isSo
        return isSo
    }

    /// The keys with commas between them.
    func deleted(_ entity: Int) -> [UInt8]? {
        lists.isEmpty || lists[entity].json.count == 0 ? nil : lists[entity].json.bytes
    }
}
