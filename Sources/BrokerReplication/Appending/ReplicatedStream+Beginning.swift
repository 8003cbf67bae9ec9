#if Replication
extension ReplicatedStream {
    /// Appends the first entries of the stream, unless it has some. Blocks until it has, for as long as it has no quorum.
    ///
    /// Several servers may call it at once: the stream gets the entries of one.
    ///
    /// - Parameter entries: as for ``Session/append(_:onWait:)``.
    /// - Throws: A refusal, a halt, or ``ReplicationError/Code/stopped``.
    package func begin(with entries: [ReplicatedEntry]) throws(ReplicationError) {
        let id = entries.first?.session ?? SessionID()
        var group = Group(name: "\(id)-first", entries: try Session.encode(entries, for: self))
        group.isFirst = true
        while try info(patience: nil).status.lastPosition == 0 {
            let outcome = group.send(
                to: Session.subject(of: id, in: name), after: 0, on: connection,
                deadline: monotonicMicroseconds() + Self.answerTime, StopToken())
            switch outcome {
            case .stored: return
            case .stopped: throw .stopped
            case .refused(let failure) where !failure.isTemporary:
                // Another server may have been first.
                if try info(patience: nil).status.lastPosition == 0 { throw failure.error(of: connection) }
            case .refused, .unknown: try connection.pause(Self.attemptPause, nil)
            }
        }
    }

    /// Microseconds until the answer to a group is not expected any more.
    private static let answerTime: Int64 = 4_000_000
    /// Microseconds between two attempts.
    private static let attemptPause: Int64 = 100_000
}
#endif
