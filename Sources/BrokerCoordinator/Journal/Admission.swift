internal import DequeModule

/// The order in which frames arrived: their jobs go to the log in it.
///
/// ```
/// reserve ──▶ opening ──▶ a job: settled, to the log
///                    └──▶ no job: settled, skipped
/// ```
///
/// A frame gets its ticket before its content is known, because opening takes time and must not change the order. A ticket
/// is settled as soon as it and everything before it has been opened; then it leaves. So questions after a waiting job cost no
/// memory.
///
/// A pure value: no threads, no clocks.
struct Admission<Entry> {
    typealias Ticket = Int

    enum Content {
        /// The frame held no job.
        case nothing
        /// The frame held a job for the log.
        case job(Entry)
        /// The frame was read from the log.
        case logged
    }

    /// A ticket that is opened, with everything before it.
    struct Settled {
        let ticket: Ticket
        let content: Content
    }

    /// The contents of the tickets that are not settled, in their order, without gaps; nil for a frame that is not opened.
    private var contents = Deque<Content?>()
    /// The ticket that is given next.
    private(set) var nextTicket = 0

    /// The first ticket that is not settled.
    private var firstTicket: Ticket { nextTicket - contents.count }

    var isEmpty: Bool { contents.isEmpty }

    mutating func reserve() -> Ticket {
        contents.append(nil)
        nextTicket += 1
        return nextTicket - 1
    }

    /// The frame was opened. Others may be settled now: ``takeSettled()``.
    mutating func open(_ ticket: Ticket, _ content: Content) { contents[ticket - firstTicket] = content }

    /// The next settled ticket, in order; nil when there is none.
    mutating func takeSettled() -> Settled? {
        guard let first = contents.first, let content = first else { return nil }
        defer { contents.removeFirst() }
        return Settled(ticket: firstTicket, content: content)
    }

    /// Everything up to that ticket has been opened.
    func isSettled(_ ticket: Ticket) -> Bool { ticket < firstTicket }
}
