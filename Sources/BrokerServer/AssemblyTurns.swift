/// Who may read a large frame now: at most so many bytes of unfinished ones, over all connections. A pure machine.
///
/// Processes take turns, and the connections of one process in the order of their asking, so that a process with many
/// connections holds up itself and not the others. One frame may always be read, so that nothing stands still.
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

    /// Those that read a large frame.
    var current: [Holder] { Array(holders.keys) }

    /// Somebody waits.
    var isContended: Bool { !processes.isEmpty }

    /// - Returns: whether it is the holder's turn at once; otherwise a later ``leave(_:)`` tells.
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

    /// The holder is done, or waits no longer.
    ///
    /// - Returns: those whose turn it is now.
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
