/// The memory of all jobs in flight, shared by the threads that work on them.
final class MemoryBudget: Sendable {
    /// Called when the job may be tried again, with the bytes that are granted to it already.
    typealias Waiter = @Sendable (_ granted: Int) -> Void

    private let shares: Monitor<MemoryShares<Waiter>>
    /// Bytes that one job may take.
    let one: Int

    init(shared: Int, one: Int) {
        self.one = one
        shares = Monitor(MemoryShares(shared: shared, one: one))
    }

    /// Bytes that all jobs hold together.
    var total: Int { shares.withLock { $0.total } }

    /// - Parameters:
    ///   - payloadBytes: bytes of the frame, which is in memory already. Tickets are admitted in their order.
    ///   - isLogged: the job was read from the log.
    func admit(_ ticket: Int, payloadBytes: Int, isLogged: Bool = false) -> JobMemory {
        shares.withLock { $0.add(ticket, bytes: payloadBytes, isLogged: isLogged) }
        return JobMemory(self, ticket, payloadBytes)
    }

    func take(_ bytes: Int, for ticket: Int, passesWaiting: Bool) -> MemoryShares<Waiter>.Answer {
        shares.withLock { $0.take(bytes, for: ticket, passesWaiting: passesWaiting) }
    }

    func takeInTurn(_ bytes: Int, for ticket: Int) -> Bool {
        shares.withLock { $0.takeInTurn(bytes, for: ticket) }
    }

    /// The same without a limit.
    func hold(_ bytes: Int, for ticket: Int) { shares.withLock { $0.hold(bytes, for: ticket) } }

    /// Whether nothing that must be merged before the job holds memory.
    func isNext(_ ticket: Int) -> Bool { shares.withLock { $0.isNext(ticket) } }

    /// Changes the shares, and wakes the holders that this helps.
    func change(_ body: (inout MemoryShares<Waiter>) -> Void) {
        let woken = shares.withLock { shares in
            body(&shares)
            return shares.takeWoken()
        }
        for (waiter, granted) in woken { waiter(granted) }
    }
}
