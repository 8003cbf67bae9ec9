/// When jobs are to be sent: a pure value. Times are nanoseconds from the start.
package enum Pace: Sendable, Equatable {
    /// As soon as another has ended.
    case closed
    /// So many a second, whatever the server does.
    case open(jobsPerSecond: Double)
}

/// When the sending ends.
package enum Extent: Sendable, Equatable {
    case jobs(Int)
    case seconds(Double)
}

package struct Schedule: Sendable {
    package let pace: Pace
    package let extent: Extent
    /// Jobs given so far.
    package private(set) var given = 0

    package init(_ pace: Pace, _ extent: Extent) {
        self.pace = pace
        self.extent = extent
    }

    /// The number of all jobs; nil when only the time limits the run.
    package var jobs: Int? {
        switch (extent, pace) {
        case (.jobs(let count), _): count
        case (.seconds(let seconds), .open(let rate)): Int((seconds * rate).rounded(.up))
        case (.seconds, .closed): nil
        }
    }

    /// Jobs a second that were asked for; nil in a closed loop.
    package var offeredRate: Double? {
        if case .open(let rate) = pace { rate } else { nil }
    }

    /// When the next job is to be sent, in an open loop; the n-th always at the same time, however late others were.
    package var nextAt: UInt64? {
        guard case .open(let rate) = pace, !isOver(at: 0) else { return nil }
        return UInt64(Double(given) / rate * 1e9)
    }

    /// No job is to be sent any more.
    package func isOver(at now: UInt64) -> Bool {
        if let jobs { return given >= jobs }
        if case .seconds(let seconds) = extent { return Double(now) >= seconds * 1e9 }
        return false
    }

    /// Takes the next job, if it is due.
    ///
    /// - Returns: when it ought to be sent; nil when there is none to send now.
    package mutating func take(at now: UInt64) -> UInt64? {
        guard !isOver(at: now) else { return nil }
        guard let at = nextAt else {
            given += 1
            return now
        }
        guard at <= now else { return nil }
        given += 1
        return at
    }
}
