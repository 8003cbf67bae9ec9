internal import BrokerJSON
internal import BrokerModel

/// Which objects the records of each operation's `json` are, in payload order: kept only for a job that asks for its
/// objects (`reply: objects`).
public struct StagedPayload: Sendable {
    /// One operation.
    public struct Operation: Sendable {
        /// Of the objects: an index among the model's entities.
        public let entity: Int
        fileprivate var places: [UInt32] = []

        fileprivate static let nothing = UInt32.max

        /// The staged row of each record, or bare key; nil of one that left no object of its own.
        public var rows: some RandomAccessCollection<Int?> {
            places.lazy.map { $0 == Self.nothing ? nil : Int($0) }
        }

        fileprivate mutating func note(_ row: Int?) { places.append(row.map { UInt32($0) } ?? Self.nothing) }
    }

    /// In payload order.
    public private(set) var operations: [Operation] = []

    /// Bytes that each record takes, with the room that an array grows into.
    static let bytesPerRecord = 2 * MemoryLayout<UInt32>.stride

    mutating func begin(_ entity: Int) { operations.append(Operation(entity: entity)) }

    mutating func note(_ row: Int?) { operations[operations.count - 1].note(row) }

    /// What the newest operation noted so far.
    var notedCount: Int { operations.last?.places.count ?? 0 }

    /// Adds the operations of a later part.
    ///
    /// - Parameter rows: by entity index and the part's row, the row that it is here.
    mutating func add(_ part: StagedPayload, translating rows: [[Int]]) {
        for operation in part.operations {
            begin(operation.entity)
            for row in operation.rows { note(row.map { rows[operation.entity][$0] }) }
        }
    }
}

extension StagingContext {
    /// The job asks for its objects, and an operation on them begins.
    ///
    /// - Parameter entity: of the objects: those that its `json` describes.
    mutating func beginPayload(_ entity: Int) { payload?.begin(entity) }

    /// Notes which object a record of the operation's own is; nil when it left none.
    @inline(__always)
    mutating func notePayload(_ row: Int?) throws(StagingFault) {
        guard payload != nil else { return }
        try take(StagedPayload.bytesPerRecord)
        payload?.note(row)
    }

    /// Notes the records that were left out as a whole with their operation.
    mutating func padPayload(to count: Int) throws(StagingFault) {
        guard let noted = payload?.notedCount else { return }
        for _ in noted..<max(noted, count) { try notePayload(nil) }
    }
}

extension EntityPlan.RelationshipPlan {
    /// How many objects a value of the relationship names.
    func elementCount(of value: JSONValue) -> Int {
        switch value.kind {
        case .null: 0
        case .array where relationship.isToMany: value.elements.reduce(0) { count, _ in count + 1 }
        default: 1
        }
    }
}
