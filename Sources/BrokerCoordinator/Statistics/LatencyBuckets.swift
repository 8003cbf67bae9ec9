internal import BrokerJSON

/// A histogram of fixed buckets, for monitoring systems that add those of several times or servers (Prometheus).
struct LatencyBuckets {
    /// Microseconds up to which each bucket counts: the usual steps of 1, 2.5 and 5, from what a small job takes to what
    /// no client waits for.
    static let bounds: [Int64] = [
        100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
        5_000_000, 10_000_000, 30_000_000, 60_000_000,
    ]

    /// Times in each bucket alone; the last one has those above all bounds.
    private var counts = [Int](repeating: 0, count: bounds.count + 1)
    private var sum: Int64 = 0

    mutating func record(_ microseconds: Int64) {
        counts[Self.bounds.firstIndex { microseconds <= $0 } ?? Self.bounds.count] += 1
        sum += microseconds
    }

    /// The number of times up to each bound.
    var cumulative: [Int] {
        var total = 0
        return counts.dropLast().map {
            total += $0
            return total
        }
    }

    var count: Int { counts.reduce(0, +) }

    func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.key("counts")
            writer.array { writer in for count in cumulative { writer.integer(count) } }
            writer.member("count", count)
            writer.member("sumMicroseconds", sum)
        }
    }

    static func writeBounds(to writer: inout JSONWriter) {
        writer.key("boundsMicroseconds")
        writer.array { writer in for bound in bounds { writer.integer(bound) } }
    }
}
