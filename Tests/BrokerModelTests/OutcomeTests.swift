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

    @Test func `a written outcome has its own text`() throws {
        for outcome in Self.others {
            var written = outcome
            written.writeBrief()
            #expect(written.members == outcome.members)
            #expect(written.storedObject == outcome.storedObject)
            written.changes.append((entity: "Other", counts: ChangeCounts(deleted: 3)))
            #expect(written.members != outcome.members)
        }
    }

    @Test func `an outcome of only the changes of another one has its text`() throws {
        for outcome in Self.others {
            for other in Self.others where outcome.isOnly(other.changes) && other.isOnly(other.changes) {
                #expect(outcome.members == other.members)
                #expect(outcome.storedObject == other.storedObject)
            }
        }
        let plain = Self.others.filter { $0.isOnly($0.changes) }
        #expect(plain.count == Self.others.count { $0.keys == nil && $0.rejected.isEmpty && $0.warnings.isEmpty })
    }

    @Test func `the stored outcome is an object of the sent members`() throws {
        for outcome in Self.others {
            #expect(outcome.storedObject == Array("{".utf8) + outcome.members + Array("}".utf8))
            _ = try JSONDocument(parsing: JSONText(copying: outcome.storedObject))
        }
    }
}
