internal import BrokerJSON
public import BrokerModel

/// What one collection of a job became, on one worker: rows, and what its records said of links, not yet weighed against
/// each other. ``StagedJobRows`` makes a job's rows of it, together with the job's other parts.
///
/// Links are said, not set: each word bears the text offset of the record that said it, and `LinkResolution` lets the
/// later word win. So a record's words come before those of the records nested in it, whenever staging heard them.
// One context fills it; handed over by `StagingContext.finish()`, one thread at a time has it.
public final class StagedPart: @unchecked Sendable {
    let collection: JobCollection
    let tables: TableSet
    /// By link table index.
    var links: [[StagedLink]]
    var pairs: [StagedPair] = []
    var replacements: [StagedReplacement] = []
    var spared: [RetainedLink] = []
    var places: [StagedListPosition] = []
    var nestings: [StagedNesting] = []
    var rejections: RejectionList
    /// The job fails for it if the records around it are taken.
    var conditionalFault: ConditionalFault?
    /// A record is not newer than one of an earlier part, or deletes an object that may be newer: only staging them
    /// together, knowing what the store has, tells what counts.
    var hasOvertaken = false
    /// Objects that are named inside records whose contents do not count.
    var innerNames: InnerNames?
    /// A record was taken though only the store can tell whether its object may be of that entity.
    var hasDoubtfulKinds = false
    var warnings: [Warning]
    let subject: StagedTarget?
    let tombstones: StagedTombstones?
    /// Nil unless the job asks for its objects.
    var payload: StagedPayload?
    /// What cells point at, besides the document.
    var memory: [ArenaChunks]

    init(
        _ collection: JobCollection, _ tables: TableSet, links: [[StagedLink]], pairs: [StagedPair],
        replacements: [StagedReplacement], spared: [RetainedLink], places: [StagedListPosition],
        nestings: [StagedNesting], rejections: RejectionList, conditionalFault: ConditionalFault?, warnings: [Warning],
        subject: StagedTarget?, tombstones: StagedTombstones?, payload: StagedPayload?, memory: ArenaChunks
    ) {
        self.collection = collection
        self.tables = tables
        self.links = links
        self.pairs = pairs
        self.replacements = replacements
        self.spared = spared
        self.places = places
        self.nestings = nestings
        self.rejections = rejections
        self.conditionalFault = conditionalFault
        self.warnings = warnings
        self.subject = subject
        self.tombstones = tombstones
        self.payload = payload
        self.memory = [memory]
    }
}

/// A link of a link table, by the rows that it joins in the staged tables of the table's two entities.
@frozen public struct StagedLink: Sendable {
    public let source: UInt32
    public let destination: UInt32
    /// Where in the text the record begins that said it; the last of several.
    var sourceOffset: UInt32
    /// A record of the source named it.
    public internal(set) var isNamedBySource: Bool
    /// A record of the destination named it, from the relationship's other side.
    public internal(set) var isNamedByDestination: Bool
}

/// One record's word on a one-to-one relationship: this row's partner is that one, or nobody.
struct StagedPair {
    let entity: Int
    let row: Int
    let column: Int
    /// A row of the other entity; nil ends the link.
    let partner: Int?
    let sourceOffset: UInt32
}

/// A to-many relationship of one object whose links that were there before are to go: all that were said earlier than
/// `clearsBefore`, and those of the store that this job does not name.
public struct StagedReplacement: Sendable {
    public let entity: Int
    public let row: Int
    public let relationship: Int
    /// Of `null`, where its record begins; of a set that replaces, where its operation begins.
    let clearsBefore: UInt32
    /// It ends all links, and what names one later makes it anew.
    let isNull: Bool
}

/// An element of a to-many relationship that was left out: no link is made to it, but one that was there before the
/// operation stays, also when the relationship is replaced.
public struct RetainedLink: Sendable {
    public let entity: Int
    public let row: Int
    public let relationship: Int
    /// The entity that the element is a record of, whose identity it is.
    public let kind: Int
    /// The identity of the element, in the order of its entity's identity. The rows keep alive what its cells point at.
    public let identity: [Cell]
    /// Where the operation begins that left it out.
    let operation: UInt32
}

/// A record, or an object inside one, that is left out. `offset` is its place in the text of the job.
public struct Rejection: Sendable {
    public let fault: Fault
    let offset: Int

    public init(_ fault: Fault, at offset: Int) {
        self.fault = fault
        self.offset = offset
    }
}

/// What was left out: the first ones are kept to be told, the others are counted.
public struct RejectionList: Sendable {
    /// Listed in an answer, so that it stays of a size to send.
    public static let maximumListed = 10_000
    /// What one that is listed takes until it is told: with its sentence and its path, as values, and several times as
    /// text on its way through the writer to the client.
    static let listedBytes = 1_500

    public private(set) var listed: [Rejection] = []
    /// By the name of the entity, those that are not listed.
    public private(set) var unlisted: [String: Int] = [:]

    init() {}

    /// Another one will be listed; if not, nobody reads its sentence.
    var isListing: Bool { listed.count < Self.maximumListed }

    mutating func add(_ fault: Fault, at offset: Int) {
        if isListing {
            listed.append(Rejection(fault, at: offset))
        } else {
            unlisted[fault.entity ?? "", default: 0] += 1
        }
    }

    /// The listed ones as faults with their paths, in payload order.
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

    /// Adds those of a later part, or found later; the first in the text stay listed.
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
