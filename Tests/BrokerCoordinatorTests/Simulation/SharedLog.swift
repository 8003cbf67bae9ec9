import BrokerModel
import BrokerStore

@testable import BrokerCoordinator

/// A mistake in the glue between servers and a log that they share, which the simulation must find.
enum SharedLogBug: String, CaseIterable, Sendable {
    /// A server takes an entry with the id of one of its jobs for that job.
    case matchById
    /// A group whose fate is unknown is sent again without the expected position.
    case sendAgainUnfenced
    /// A job is cancelled after it was appended: the other servers do not know that.
    case cancelAfterAppend
    /// An entry that is no job does not move the position.
    case controlWithoutPosition
    /// After a reconnection, a server reads from an earlier position.
    case positionMovesBack
    /// The entries of other servers wait for the room of this one's clients, whose jobs may come after them.
    case othersWaitForClients
}

/// The log that several servers append to and read, with its one order: an entry's position is its index and one.
struct SharedLog {
    struct Entry {
        let session: Int
        /// The job's ticket in that session; nil for an entry that is no job.
        let ticket: Int?
        let id: String
        let owner: JobOwner
        let isIDMade: Bool
        let message: Int
        let time: Int64
    }

    /// Entries that become durable together, or not at all.
    struct Group {
        let session: Int
        let number: Int
        let entries: [LogEntry]
        /// The position of the session's last entry, which must still be its last; nil for any.
        let expected: Int?
    }

    enum Answer {
        /// The position of the group's last entry.
        case stored(Int)
        /// The session's last entry is another one than expected.
        case refused
    }

    private(set) var entries: [Entry] = []

    /// The position of the session's last entry; 0 for none.
    func last(of session: Int) -> Int {
        entries.lastIndex { $0.session == session && $0.ticket != nil }.map { $0 + 1 } ?? 0
    }

    mutating func store(_ group: Group) -> Answer {
        if let expected = group.expected, expected != last(of: group.session) { return .refused }
        for entry in group.entries {
            append(
                Entry(
                    session: group.session, ticket: entry.ticket, id: entry.id.text, owner: entry.owner,
                    isIDMade: entry.isIDMade, message: Int(String(decoding: entry.payload(), as: UTF8.self))!,
                    time: max(entries.last?.time ?? 0, entry.time)))
        }
        return .stored(entries.count)
    }

    /// An entry that is no job.
    mutating func appendControl(_ session: Int, message: Int) {
        append(
            Entry(
                session: session, ticket: nil, id: "control-\(entries.count)", owner: .server, isIDMade: true,
                message: message, time: entries.last?.time ?? 0))
    }

    private mutating func append(_ entry: Entry) { entries.append(entry) }
}

/// Appends the entries of one session: one group is in flight, the next gathers. A group whose fate is unknown is looked up,
/// and sent again under the same expectation.
struct SessionAppender {
    let session: Int
    private(set) var inFlight: SharedLog.Group?
    private var last = 0
    private var number = 0

    init(session: Int) { self.session = session }

    mutating func send(_ entries: [LogEntry]) -> SharedLog.Group {
        number += 1
        let group = SharedLog.Group(session: session, number: number, entries: entries, expected: last)
        inFlight = group
        return group
    }

    mutating func answered(_ number: Int, _ answer: SharedLog.Answer) {
        // Late and doubled answers are about groups that are settled.
        guard inFlight?.number == number, case .stored(let position) = answer else { return }
        last = position
        inFlight = nil
    }

    /// No answer has come, or a refusal: the session's last entry shows whether the group is stored.
    ///
    /// - Returns: the group to send again; nil when it is stored.
    mutating func lookUp(_ log: SharedLog) -> SharedLog.Group? {
        let found = log.last(of: session)
        guard found == last else {
            last = found
            inFlight = nil
            return nil
        }
        return inFlight
    }
}
