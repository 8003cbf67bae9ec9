internal import BrokerJSON
internal import BrokerModel

extension StagingContext {
    /// Begins an operation on objects of one table.
    mutating func beginPayload(_ table: Int) { payload?.begin(table) }

    /// Begins an operation whose objects may be in any table.
    mutating func beginMixedPayload() { payload?.begin(nil) }

    /// Notes the object of one of the operation's own records; nil when the record has none.
    @inline(__always)
    mutating func notePayload(_ object: (table: Int, row: Int)?) throws(StagingFault) {
        guard payload != nil else { return }
        try take(StagedPayload.bytesPerRecord)
        payload?.note(object)
    }

    /// Notes the records that were rejected together with their operation.
    mutating func padPayload(to count: Int) throws(StagingFault) {
        guard let noted = payload?.notedCount else { return }
        for _ in noted..<max(noted, count) { try notePayload(nil) }
    }
}

extension EntityPlan.RelationshipPlan {
    /// Returns the number of objects that a value of the relationship names.
    func elementCount(of value: JSONValue) -> Int {
        switch value.kind {
        case _ where isNone(value): 0
        case .array where relationship.isToMany: value.elements.reduce(0) { count, _ in count + 1 }
        default: 1
        }
    }
}
