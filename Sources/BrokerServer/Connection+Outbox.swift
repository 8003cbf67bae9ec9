internal import BrokerWire
internal import DequeModule

extension Connection {
    /// An answer whose turn has not come.
    enum Waiting {
        /// Small, and after a large one.
        case frame([UInt8])
        /// In the ledger: the outcome of a job of this client's, or of one that was asked for with a ticket.
        case stored(id: String, FrameReference, Source)
        /// In the store, and long.
        case fetch(PendingFetch)
    }

    enum Source {
        /// - lostObjects: the number of objects that the ledger lacks; nil when none were asked for.
        case job(sequence: Int64?, isDuplicate: Bool, lostObjects: Int?)
        case question(ticket: Int)
    }

    struct Outbox {
        var frames: [[UInt8]] = []
        var finished = 0
        /// Bytes of frames that the kernel has not taken.
        var bytes = 0
        var waiting = Deque<Waiting>()
        /// The answer that was first among `waiting` is being read from the ledger.
        var isReading = false
        var isFlushScheduled = false
        var isClosed = false

        mutating func add(_ frame: [UInt8]) {
            frames.append(frame)
            bytes += frame.count
        }

        /// As the other, for a short frame: gathers them in one piece.
        mutating func add(_ frame: UnsafeRawBufferPointer) {
            bytes += frame.count
            if let last = frames.indices.last, frames[last].count + frame.count <= Connection.pieceBytes {
                frames[last].append(contentsOf: frame)
            } else {
                frames.append([UInt8](frame))
            }
        }

        /// - Returns: whether a flush must be scheduled.
        mutating func schedule() -> Bool {
            defer { isFlushScheduled = true }
            return !isFlushScheduled
        }
    }
}

extension Connection.Waiting {
    /// Reading it needs room.
    var isLarge: Bool {
        if case .frame = self { false } else { true }
    }
}
