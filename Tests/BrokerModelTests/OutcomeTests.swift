import BrokerJSON
import BrokerModel
import Testing

/// The sent and the stored outcome of a job.
@Suite(.timeLimit(.minutes(5))) struct OutcomeTests {
    private static func outcome(_ changes: [(String, ChangeCounts)], _ change: (inout Outcome) -> Void = { _ in })
        -> Outcome
    {
        var outcome = Outcome()
        outcome.changes = changes.map { (entity: $0, counts: $1) }
        change(&outcome)
        return outcome
    }

    private static let others: [Outcome] = [
        outcome([("Row", ChangeCounts(inserted: 1))]),
        outcome([("Row", ChangeCounts(inserted: 2))]),
        outcome([("Row", ChangeCounts(updated: 1))]),
        outcome([("Line", ChangeCounts(inserted: 1))]),
        outcome([("Row", ChangeCounts(inserted: 1)), ("Line", ChangeCounts(inserted: 1))]),
        // Two names in Unicode's eyes alone.
        outcome([("\u{E9}", ChangeCounts(inserted: 1))]), outcome([("e\u{301}", ChangeCounts(inserted: 1))]),
        outcome([("Row", ChangeCounts(inserted: 1))]) { $0.keys = Array("{}".utf8) },
        outcome([("Row", ChangeCounts(inserted: 1))]) { $0.rejected = [Fault(.invalidValue, "It is no number.")] },
        outcome([("Row", ChangeCounts(inserted: 1))]) {
            $0.warnings = [Warning(.unknownKey, entity: "Row", key: "bunk", count: 1)]
        },
        outcome([]),
    ]

    @Test func `an outcome written after a similar one has its own text`() throws {
        for outcome in Self.others {
            for var before in Self.others {
                before.writeBrief()
                var written = outcome
                written.writeBrief(like: before)
                #expect(written.members == outcome.members)
                #expect(written.storedObject == outcome.storedObject)
                written.changes.append((entity: "Other", counts: ChangeCounts(deleted: 3)))
                #expect(written.members != outcome.members)
            }
        }
    }

    @Test func `the stored outcome is an object of the sent members`() throws {
        for outcome in Self.others {
            #expect(outcome.storedObject == Array("{".utf8) + outcome.members + Array("}".utf8))
            _ = try JSONDocument(parsing: JSONText(copying: outcome.storedObject))
        }
    }
}
