internal import Synchronization

/// Maps job ids to lines of the ledger: in memory, so that a job costs the ledger one row at its end and no index on
/// the disk. Some 40 bytes for each id.
///
/// It stores only hashes of the ids: the caller must check that a line exists and has the id. Ids are added as their
/// jobs are applied, and removed when the transaction is rolled back; expired lines are removed later, step by step.
/// May be used from any thread.
package final class JobIndex: Sendable {
    private struct State {
        var shards = Array(repeating: Shard(), count: JobIndex.shardCount)
        /// Earlier lines have expired.
        var first: Int64 = 0
        /// Changes since the last transaction that became durable.
        var changes: [Change] = []

        mutating func apply(_ change: Change) {
            shards[JobIndex.shard(of: change.hash)].replace(change.hash, change.old, change.new, first: first)
        }
    }

    private struct Change {
        let hash: UInt64
        let old: Int64
        let new: Int64
    }

    /// Each shard grows by itself, so that no growth takes long.
    private static let shardCount = 256

    private let state = Mutex(State())

    /// An id has the same hash for the life of the process, and clients cannot predict which ids share one.
    static func hash(_ id: String) -> UInt64 {
        var hasher = Hasher()
        var id = id
        id.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        // 0 means no hash.
        return max(1, UInt64(bitPattern: Int64(hasher.finalize())))
    }

    private static func shard(of hash: UInt64) -> Int { Int(hash >> 56) }

    /// Sequences of the lines that may be the id's, the newest first.
    func sequences(of id: String) -> [Int64] {
        let hash = Self.hash(id)
        return state.withLock { $0.shards[Self.shard(of: hash)].find(hash) }
    }

    /// Sets the sequence of the id's line.
    ///
    /// - Parameter old: the sequence of its earlier line; nil when it has none.
    func set(_ id: String, to sequence: Int64, replacing old: Int64?) {
        let change = Change(hash: Self.hash(id), old: old ?? 0, new: sequence)
        state.withLock {
            $0.apply(change)
            $0.changes.append(change)
        }
    }

    /// Expires the lines before that sequence.
    func expire(before sequence: Int64) { state.withLock { $0.first = max($0.first, sequence) } }

    func transactionEnded(isDurable: Bool) {
        state.withLock { state in
            if !isDurable {
                for change in state.changes.reversed() {
                    state.apply(Change(hash: change.hash, old: change.new, new: change.old))
                }
            }
            state.changes.removeAll(keepingCapacity: state.changes.count < 4_096)
        }
    }

    /// Adds a line of a ledger that existed before.
    func load(_ id: String, _ sequence: Int64) {
        state.withLock { $0.apply(Change(hash: Self.hash(id), old: 0, new: sequence)) }
    }

    /// The number of slots, for tests.
    var slotCount: Int { state.withLock { $0.shards.reduce(0) { $0 + $1.slotCount } } }

    /// Open addressing by the hash: a slot is free (0), removed (its hash and 0), or a line.
    private struct Shard {
        private struct Slot {
            var hash: UInt64 = 0
            var sequence: Int64 = 0
        }

        private var slots: [Slot] = []
        /// The number of slots that are not free.
        private var used = 0

        var slotCount: Int { slots.count }

        /// Changes nothing: `mutating` spares the reference to the slots that a copy of the shard would take.
        mutating func find(_ hash: UInt64) -> [Int64] {
            guard !slots.isEmpty else { return [] }
            var found: [Int64] = []
            var position = Int(truncatingIfNeeded: hash) & (slots.count - 1)
            while slots[position].hash != 0 {
                if slots[position].hash == hash, slots[position].sequence != 0 {
                    found.append(slots[position].sequence)
                }
                position = (position + 1) & (slots.count - 1)
            }
            return found.sorted(by: >)
        }

        /// - Parameters:
        ///   - old: the line that is replaced; 0 for none.
        ///   - new: the line that replaces it; 0 for none.
        mutating func replace(_ hash: UInt64, _ old: Int64, _ new: Int64, first: Int64) {
            if old != 0, let position = position(of: hash, old) {
                slots[position].sequence = new
            } else if new != 0 {
                if (used + 1) * 4 > slots.count * 3 { rebuild(first) }
                insert(Slot(hash: hash, sequence: new))
            }
        }

        private func position(of hash: UInt64, _ sequence: Int64) -> Int? {
            guard !slots.isEmpty else { return nil }
            var position = Int(truncatingIfNeeded: hash) & (slots.count - 1)
            while slots[position].hash != 0 {
                if slots[position].hash == hash, slots[position].sequence == sequence { return position }
                position = (position + 1) & (slots.count - 1)
            }
            return nil
        }

        private mutating func insert(_ slot: Slot) {
            var position = Int(truncatingIfNeeded: slot.hash) & (slots.count - 1)
            while slots[position].hash != 0 {
                position = (position + 1) & (slots.count - 1)
            }
            slots[position] = slot
            used += 1
        }

        /// Drops expired and removed slots, and makes room.
        private mutating func rebuild(_ first: Int64) {
            let remaining = slots.filter { $0.sequence != 0 && $0.sequence >= first }
            var count = 16
            while count < 2 * (remaining.count + 1) { count *= 2 }
            slots = Array(repeating: Slot(), count: count)
            used = 0
            for slot in remaining { insert(slot) }
        }
    }
}
