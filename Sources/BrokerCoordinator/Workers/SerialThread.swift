/// A thread that runs tasks one after the other, in the order in which they are added.
final class SerialThread: Sendable {
    private struct Queue {
        var tasks: [@Sendable () -> Void] = []
        /// A thread runs tasks: this one, or a caller that ran its task on an idle one's behalf.
        var isBusy = false
        var isStopping = false
    }

    private let queue = Monitor(Queue())
    private let thread: Thread

    init(named name: String) {
        let queue = queue
        thread = Thread(named: name) {
            while true {
                let tasks = queue.wait { queue -> [@Sendable () -> Void]? in
                    guard !queue.isBusy, !queue.tasks.isEmpty || queue.isStopping else { return nil }
                    queue.isBusy = true
                    defer { queue.tasks.removeAll(keepingCapacity: true) }
                    return queue.tasks
                }
                if tasks.isEmpty { return }
                for task in tasks { task() }
                queue.withLock { $0.isBusy = false }
            }
        }
    }

    func run(_ task: @escaping @Sendable () -> Void) {
        queue.signal { queue in
            queue.tasks.append(task)
            return queue.tasks.count == 1
        }
    }

    func run(_ tasks: [@Sendable () -> Void]) {
        guard !tasks.isEmpty else { return }
        queue.signal { queue in
            queue.tasks += tasks
            return queue.tasks.count == tasks.count
        }
    }

    /// As ``run(_:)``, but on the calling thread if no other task is queued: saves a waiting caller a thread switch.
    func runHereIfIdle(_ tasks: [@Sendable () -> Void]) {
        let isMine = queue.withLock { queue in
            guard !queue.isBusy, queue.tasks.isEmpty else { return false }
            queue.isBusy = true
            return true
        }
        guard isMine else { return run(tasks) }
        for task in tasks { task() }
        queue.signal { queue in
            queue.isBusy = false
            return !queue.tasks.isEmpty || queue.isStopping
        }
    }

    /// Runs the queued tasks, then ends the thread. Called once.
    func stop() {
        queue.update { $0.isStopping = true }
        thread.join()
    }
}
