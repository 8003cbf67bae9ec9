internal import BrokerJSON
internal import BrokerModel

/// The jobs of about the last minute: six slots of ten seconds, of which the newest is not full. A pure value.
struct RecentJobs {
    /// The work in one slot, or in several.
    struct Slot {
        struct Counts {
            var completed = 0
            var failed = 0
            var duplicates = 0
            var commits = 0
            var objects = ChangeCounts()

            mutating func add(_ other: Counts) {
                completed += other.completed
                failed += other.failed
                duplicates += other.duplicates
                commits += other.commits
                objects.add(other.objects)
            }
        }

        var counts = Counts()
        var latencies = Latencies(digits: .one)

        mutating func add(_ other: Slot) {
            counts.add(other.counts)
            latencies.add(other.latencies)
        }
    }

    private static let slotMicroseconds: Int64 = 10_000_000
    private static let slotCount = 6

    /// By the number of the slot since the clock's beginning.
    private var slots: [Int64: Slot] = [:]
    private let startedAt: Int64

    init(at now: Int64) { startedAt = now }

    /// - Parameter now: the time of the monotonic clock, in microseconds.
    mutating func note(at now: Int64, _ body: (inout Slot) -> Void) {
        let number = now / Self.slotMicroseconds
        if slots[number] == nil {
            slots = slots.filter { $0.key > number - Int64(Self.slotCount) }
            slots[number] = Slot()
        }
        body(&slots[number]!)
    }

    /// The sum of the slots, and the microseconds that they cover.
    func sum(at now: Int64) -> (slot: Slot, microseconds: Int64) {
        let first = now / Self.slotMicroseconds - Int64(Self.slotCount) + 1
        var sum = Slot()
        for (number, slot) in slots where number >= first { sum.add(slot) }
        return (sum, now - max(startedAt, first * Self.slotMicroseconds))
    }

    func write(to writer: inout JSONWriter, at now: Int64, isJournaled: Bool) {
        let (slot, microseconds) = sum(at: now)
        writer.object { writer in
            writer.member("milliseconds", microseconds / 1_000)
            writer.key("jobs")
            writer.object { writer in
                writer.member("completed", slot.counts.completed)
                writer.member("failed", slot.counts.failed)
                writer.member("duplicate", slot.counts.duplicates)
            }
            writer.key("objects")
            slot.counts.objects.write(to: &writer)
            writer.member("commits", slot.counts.commits)
            writer.key("latencyMicroseconds")
            slot.latencies.write(to: &writer, isJournaled: isJournaled)
        }
    }
}
