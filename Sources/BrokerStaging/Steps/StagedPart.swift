internal import BrokerJSON
package import BrokerModel

/// The rows that one worker staged for one collection of a job, and its records' assertions about links, not yet
/// resolved. ``StagedJobRows`` unites it with the job's other parts.
///
/// Each assertion has the source offset of its record, and `LinkResolution` lets the later assertion win. So a record's
/// assertions precede those of its nested records, in whichever order staging reads them.
// One context fills it; `StagingContext.finish()` hands it over, and only one thread at a time uses it.
package final class StagedPart: @unchecked Sendable {
    let collection: JobCollection
    let tables: TableSet
    /// By link table index.
    var links: [[StagedLink]]
    var pairs: [StagedPair] = []
    var replacements: [StagedReplacement] = []
    var retainedLinks: [RetainedLink] = []
    var listPositions: [StagedListPosition] = []
    var nestings: [StagedNesting] = []
    var rejections: RejectionList
    /// The job fails with this fault if the merge accepts the enclosing records.
    var conditionalFault: ConditionalFault?
    /// A record is not newer than one of an earlier part, or deletes an object that may be newer. The records must be
    /// staged together again, with the stored facts, to decide which ones count.
    var needsComparison = false
    /// Objects named inside records whose contents do not count.
    var innerNames: InnerNames?
    /// A record was accepted whose concrete entity only the store can check.
    var hasUncertainEntities = false
    var warnings: [Warning]
    let target: StagedTarget?
    let tombstones: StagedTombstones?
    /// Nil unless the job asks for its objects.
    var payload: StagedPayload?
    /// The memory that cells point at, besides the document.
    var memory: [ArenaChunks]

    init(
        _ collection: JobCollection, _ tables: TableSet, links: [[StagedLink]], pairs: [StagedPair],
        replacements: [StagedReplacement], retainedLinks: [RetainedLink], listPositions: [StagedListPosition],
        nestings: [StagedNesting], rejections: RejectionList, conditionalFault: ConditionalFault?, warnings: [Warning],
        target: StagedTarget?, tombstones: StagedTombstones?, payload: StagedPayload?, memory: ArenaChunks
    ) {
        self.collection = collection
        self.tables = tables
        self.links = links
        self.pairs = pairs
        self.replacements = replacements
        self.retainedLinks = retainedLinks
        self.listPositions = listPositions
        self.nestings = nestings
        self.rejections = rejections
        self.conditionalFault = conditionalFault
        self.warnings = warnings
        self.target = target
        self.tombstones = tombstones
        self.payload = payload
        self.memory = [memory]
    }
}

/// A link of a link table, as row numbers in the staged tables of the table's two entities.
@frozen package struct StagedLink: Sendable {
    package let source: UInt32
    package let destination: UInt32
    /// The offset in the text of the latest record that asserted the link.
    var sourceOffset: UInt32
    /// A record of the source asserted it.
    package internal(set) var isNamedBySource: Bool
    /// A record of the destination asserted it, by the inverse relationship.
    package internal(set) var isNamedByDestination: Bool
}

/// One record's assertion about a one-to-one relationship: the row's partner, or none.
struct StagedPair {
    let entity: Int
    let row: Int
    let column: Int
    /// A row of the other entity; nil ends the link.
    let partner: Int?
    let sourceOffset: UInt32
}

/// A to-many relationship of one object whose earlier links end: all with a source offset below `clearsBefore`, and the
/// store's links that this job does not name.
package struct StagedReplacement: Sendable {
    package let entity: Int
    package let row: Int
    package let relationship: Int
    /// For `null`, the offset of its record; for a replacing set, the offset of its operation.
    let clearsBefore: UInt32
    /// The value is `null`: it ends all links, and a later assertion creates a new link.
    let isNull: Bool
}

/// An element of a to-many relationship that was rejected. The job makes no link to it, but a link that existed before
/// the operation is retained, even when the relationship is replaced.
package struct RetainedLink: Sendable {
    package let entity: Int
    package let row: Int
    package let relationship: Int
    /// The entity of the element's record, to which the identity belongs.
    package let concreteEntity: Int
    /// The identity of the element, in the order of its entity's identity. The rows own the memory of its cells.
    package let identity: [Cell]
    /// The offset of the operation that rejected the element.
    let operation: UInt32
}

/// A rejected record or nested object, with its offset in the text of the job.
package struct Rejection: Sendable {
    package let fault: Fault
    let offset: Int

    package init(_ fault: Fault, at offset: Int) {
        self.fault = fault
        self.offset = offset
    }
}

/// The rejected records: the first ones are listed, the others are counted.
package struct RejectionList: Sendable {
    /// Limit on the listed faults, which bounds the size of an answer.
    package static let maximumListed = 10_000
    /// Memory in bytes of a listed fault until it is sent: its message and its path, as values and in several text
    /// copies on the way through the writer to the client.
    static let listedBytes = 1_500

    package private(set) var listed: [Rejection] = []
    /// By entity name, the count of those that are not listed.
    package private(set) var unlisted: [String: Int] = [:]

    init() {}

    /// The next one will be listed; otherwise its message is not used.
    var isListing: Bool { listed.count < Self.maximumListed }

    mutating func add(_ fault: Fault, at offset: Int) {
        if isListing {
            listed.append(Rejection(fault, at: offset))
        } else {
            unlisted[fault.entity ?? "", default: 0] += 1
        }
    }

    /// Returns the listed ones as faults with their paths, in payload order.
    func located(in document: JSONDocument) -> [Fault] {
        guard !listed.isEmpty else { return [] }
        let ordered = listed.sorted { $0.offset < $1.offset }
        let paths = ValuePaths(in: document).paths(of: ordered.map(\.offset))
        return zip(ordered, paths).map { rejection, path in
            var fault = rejection.fault
            fault.path = path
            return fault
        }
    }

    /// Adds the rejections of a later part or of a later check; the first in the text stay listed.
    mutating func add(_ others: RejectionList) {
        unlisted.merge(others.unlisted, uniquingKeysWith: +)
        guard !others.listed.isEmpty else { return }
        listed = (listed + others.listed).sorted { $0.offset < $1.offset }
        for rejection in listed.dropFirst(Self.maximumListed) {
            unlisted[rejection.fault.entity ?? "", default: 0] += 1
        }
        listed.removeLast(max(0, listed.count - Self.maximumListed))
    }
}
