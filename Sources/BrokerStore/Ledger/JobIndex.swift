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
        return UInt64(bitPattern: Int64(hasher.finalize()))
    }

    private static func shard(of hash: UInt64) -> Int { Int(hash >> 56) }

    /// Sequences of the lines that may be the id's, the newest first.
    func sequences(of id: String) -> [Int64] {
        let hash = Self.hash(id)
        return state.withLock { $0.shards[Self.shard(of: hash)].find(hash) }
    }

    /// Sets the sequence of the id's line, which replaces that of an earlier one.
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

    func load(_ id: String, _ sequence: Int64) {
        state.withLock { $0.apply(Change(hash: Self.hash(id), old: 0, new: sequence)) }
    }

    /// The number of lines for which there is room, for tests.
    var capacity: Int { state.withLock { $0.shards.reduce(0) { $0 + $1.capacity } } }

    private struct Shard {
        private var lines: [UInt64: Int64] = [:]
        private var others: [UInt64: [Int64]] = [:]

        var capacity: Int { lines.capacity }

        func find(_ hash: UInt64) -> [Int64] {
            guard let line = lines[hash] else { return [] }
            return ([line] + (others[hash] ?? [])).sorted(by: >)
        }

        /// Replaces a line by another; 0 is none. Lines before `first` have expired, and are dropped when there is no more room.
        mutating func replace(_ hash: UInt64, _ old: Int64, _ new: Int64, first: Int64) {
            if old != 0 { remove(hash, old) }
            guard new != 0 else { return }
            if let other = lines[hash] {
                others[hash, default: []].append(other)
            } else if lines.count == lines.capacity {
                others = others.mapValues { $0.filter { $0 >= first } }.filter { !$0.value.isEmpty }
                lines = lines.filter { $0.value >= first || others[$0.key] != nil }
                lines.reserveCapacity(2 * (lines.count + 1))
            }
            lines[hash] = new
        }

        private mutating func remove(_ hash: UInt64, _ line: Int64) {
            guard lines[hash] == line else {
                others[hash]?.removeAll { $0 == line }
                return
            }
            lines[hash] = others[hash]?.popLast()
        }
    }
}
