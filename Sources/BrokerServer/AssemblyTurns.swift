/// Which connections may read a large frame: a bound on the bytes of unfinished ones, over all connections. A pure
/// machine.
///
/// Processes take turns, and the connections of one process in the order of their requests, so that a process with many
/// connections delays itself and not the others. One frame may always be read, so that reading never stalls.
struct AssemblyTurns<Holder: Hashable> {
    private struct Process {
        let identifier: Int32
        var waiting: [(holder: Holder, bytes: Int)]
    }

    let byteLimit: Int
    private(set) var heldBytes = 0
    private var holders: [Holder: Int] = [:]
    private var processes: [Process] = []

    init(byteLimit: Int) { self.byteLimit = byteLimit }

    /// The holders that read a large frame.
    var current: [Holder] { Array(holders.keys) }

    /// Whether a holder waits.
    var isContended: Bool { !processes.isEmpty }

    /// - Returns: whether it is the holder's turn at once; otherwise a later ``leave(_:)`` names it.
    mutating func ask(_ holder: Holder, process: Int32, bytes: Int) -> Bool {
        if processes.isEmpty, fits(bytes) {
            give(holder, bytes)
            return true
        }
        if let index = processes.firstIndex(where: { $0.identifier == process }) {
            processes[index].waiting.append((holder, bytes))
        } else {
            processes.append(Process(identifier: process, waiting: [(holder, bytes)]))
        }
        return false
    }

    /// The holder has its frame, or waits no longer.
    ///
    /// - Returns: the holders whose turn it is now.
    mutating func leave(_ holder: Holder) -> [Holder] {
        if let bytes = holders.removeValue(forKey: holder) {
            heldBytes -= bytes
        } else {
            for index in processes.indices { processes[index].waiting.removeAll { $0.holder == holder } }
            processes.removeAll { $0.waiting.isEmpty }
        }
        var next: [Holder] = []
        while let first = processes.first?.waiting.first, fits(first.bytes) {
            give(first.holder, first.bytes)
            next.append(first.holder)
            var process = processes.removeFirst()
            process.waiting.removeFirst()
            if !process.waiting.isEmpty { processes.append(process) }
        }
        return next
    }

    private func fits(_ bytes: Int) -> Bool { holders.isEmpty || heldBytes + bytes <= byteLimit }

    private mutating func give(_ holder: Holder, _ bytes: Int) {
        holders[holder] = bytes
        heldBytes += bytes
    }
}
