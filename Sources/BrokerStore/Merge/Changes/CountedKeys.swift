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
        /// Where each key ends in the text; of the first ``maximumCount`` keys only, and of none where all are wanted.
        var ends: [Int] = []
    }

    private let entities: [EntityStatements]
    /// By the index of the objects' concrete entity; empty when the limit is exceeded.
    private var lists: [List]
    private var byteCount = 0
    private let maximumCount: Int?

    /// - Parameter maximumCount: the number of keys of each entity that are enough; nil for all.
    init(_ entities: [EntityStatements], ofEach maximumCount: Int? = nil) {
        self.entities = entities
        self.maximumCount = maximumCount
        lists = Array(repeating: List(), count: entities.count)
    }

    /// Whether no key is missing for its bytes.
    var isComplete: Bool { byteCount <= FeedKeys.maximumBytesOfJob }

    /// - Parameter key: by which clients name the object.
    mutating func noteDeletion(_ entity: Int, _ key: StoredKey) {
        guard isComplete, maximumCount.map({ lists[entity].ends.count < $0 }) ?? true else { return }
        let before = lists[entity].json.count
        if let integer = key.integer, hasIntegers(entity) {
            lists[entity].json.integer(integer)
        } else {
            key.withCells { lists[entity].json.key($0, of: entities[entity].entity) }
        }
        if maximumCount != nil { lists[entity].ends.append(lists[entity].json.count) }
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

    /// The first keys, with commas between them.
    func deleted(_ entity: Int, atMost count: Int) -> ArraySlice<UInt8>? {
        guard !lists.isEmpty, count > 0, lists[entity].json.count > 0 else { return nil }
        let bytes = lists[entity].json.bytes
        let ends = lists[entity].ends
        return ends.count > count ? bytes[..<ends[count - 1]] : bytes[...]
    }
}
