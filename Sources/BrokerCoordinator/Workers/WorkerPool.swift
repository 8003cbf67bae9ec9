/// The worker threads: they open frames and stage collections. No such task waits for another.
///
/// ``WorkQueues`` decides the order. There is one thread more than may run long tasks, for brief ones.
final class WorkerPool: Sendable {
    typealias Task = @Sendable () -> Void
    typealias Length = WorkQueues<Work>.Length

    enum Kind { case opening, staging }

    struct Work {
        let kind: Kind
        let run: Task
    }

    fileprivate struct Queues {
        var work: WorkQueues<Work>
        var opening = 0
        var staging = 0
        var isStopping = false
    }

    private let queues: Monitor<Queues>
    private let threads: [Thread]

    /// - Parameters:
    ///   - longTasks: the number that run at a time.
    ///   - processors: the number that they share with the writer, if they have one.
    init(longTasks: Int, processors: Int = .max, named name: String = "worker") {
        let queues = Monitor(Queues(work: WorkQueues(longLimit: longTasks, processors: processors)))
        self.queues = queues
        threads = (0...longTasks).map { number in
            Thread(named: "\(name)-\(number)") { Self.run(queues) }
        }
    }

    /// Queue depths: frames to open and collections to stage.
    var depths: (opening: Int, staging: Int) { queues.withLock { ($0.opening, $0.staging) } }

    /// - Parameter source: the owner of the task; sources take turns.
    func run(_ kind: Kind, _ length: Length, from source: Int, _ task: @escaping Task) {
        queues.signal { queues in
            queues.count(kind, 1)
            return queues.work.append(Work(kind: kind, run: task), length, from: source)
        }
    }

    /// Whether the writer merges, or waits for jobs.
    func writer(isBusy: Bool) { queues.broadcast { $0.work.writer(isBusy: isBusy) } }

    /// Runs the queued tasks, then ends the threads. Called once, when no more will be added, not even by a task.
    func stop() {
        queues.update { $0.isStopping = true }
        for thread in threads { thread.join() }
    }

    private static func run(_ queues: Monitor<Queues>) {
        var ended: Length?
        while true {
            let next = queues.wait { queues -> (task: Work, length: Length)?? in
                if let length = ended { _ = queues.work.ended(length) }
                ended = nil
                if let next = queues.work.next() {
                    queues.count(next.task.kind, -1)
                    return .some(next)
                }
                return queues.isStopping && queues.work.isEmpty ? .some(nil) : nil
            }
            guard let next else { return }
            next.task.run()
            if next.length == .long {
                queues.broadcast { $0.work.ended(.long) || $0.isStopping }
            } else {
                ended = next.length
            }
        }
    }
}

extension WorkerPool.Queues {
    fileprivate mutating func count(_ kind: WorkerPool.Kind, _ change: Int) {
        switch kind {
        case .opening: opening += change
        case .staging: staging += change
        }
    }
}
