internal import BrokerJSON
public import BrokerModel

/// A link of a link table, by the rows that it joins in the staged tables of the table's two entities.
@frozen public struct StagedLink: Sendable {
    public let source: UInt32
    public let destination: UInt32
    /// The link was named by the record of its destination, from the relationship's other side.
    public let isNamedByDestination: Bool

    @inlinable init(source: UInt32, destination: UInt32, isNamedByDestination: Bool) {
        self.source = source
        self.destination = destination
        self.isNamedByDestination = isNamedByDestination
    }
}

/// A to-many relationship of one object whose links that this job does not name are to go.
public struct StagedReplacement: Sendable {
    public let entity: Int
    public let row: Int
    public let relationship: Int
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

/// What one or several collections of a job became: rows, links, and what was left out. Immutable, so any thread may
/// read it; it keeps everything alive that its cells point at.
public final class StagedRows: Sendable {
    /// By entity index; nil where the job touches none.
    public let tables: [FrozenTable?]
    /// By link table index.
    public let links: [[StagedLink]]
    public let replacements: [StagedReplacement]
    public let rejections: [Rejection]
    public let warnings: [Warning]
    let document: JSONDocument
    private let memory: ArenaChunks
    /// Those whose memory these rows point into, too.
    private let parts: [StagedRows]

    init(
        tables: [FrozenTable?], links: [[StagedLink]], replacements: [StagedReplacement], rejections: [Rejection],
        warnings: [Warning], document: JSONDocument, memory: ArenaChunks, parts: [StagedRows] = []
    ) {
        self.tables = tables
        self.links = links
        self.replacements = replacements
        self.rejections = rejections
        self.warnings = warnings
        self.document = document
        self.memory = memory
        self.parts = parts
    }

    /// Where the record or bare key stands that first named the row: the offset to hand to ``located(_:at:)``.
    public func offset(entity: Int, row: Int) -> Int { Int(tables[entity]!.offsets[row]) }

    /// The fault with the path, as a JSON Pointer into the message, of what stands at that offset.
    public func located(_ fault: Fault, at offset: Int) -> Fault {
        var fault = fault
        fault.path = ValuePaths(in: document).paths(of: [offset]).first
        return fault
    }

    /// The rejections as faults with their paths, in payload order.
    public func locatedRejections() -> [Fault] {
        guard !rejections.isEmpty else { return [] }
        let ordered = rejections.sorted { $0.offset < $1.offset }
        let paths = ValuePaths(in: document).paths(of: ordered.map(\.offset))
        return zip(ordered, paths).map { rejection, path in
            var fault = rejection.fault
            fault.path = path
            return fault
        }
    }
}
