internal import BrokerJSON
internal import BrokerStaging

/// The keys of deleted objects of which the net changes need no more than a count, as text for the feed, until they
/// exceed the limit of one job: so a job may delete millions of objects.
struct CountedKeys {
    private let entities: [EntityStatements]
    /// By the index of the objects' concrete entity, the keys with commas between them.
    private var texts: [Int: JSONWriter] = [:]
    private var byteCount = 0

    init(_ entities: [EntityStatements]) { self.entities = entities }

    /// Whether no key is missing.
    var isComplete: Bool { byteCount <= FeedKeys.maximumBytesOfJob }

    /// - Parameter key: by which clients name the object.
    mutating func noteDeletion(_ entity: Int, _ key: StoredKey) {
        guard isComplete else { return }
        let before = texts[entity]?.count ?? 0
        key.withCells { texts[entity, default: JSONWriter()].key($0, of: entities[entity].entity) }
        byteCount += (texts[entity]?.count ?? 0) - before
    }

    func deleted(_ entity: Int) -> [UInt8]? { texts[entity]?.bytes }
}
