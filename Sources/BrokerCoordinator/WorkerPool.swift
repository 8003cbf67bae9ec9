internal import DequeModule

/// The worker threads: they open frames and stage collections, none of which waits for another.
///
/// What is done first: small frames (so that `stats` is answered under any load), then collections (so that memory is
/// freed), then large frames, these only while there is room or nothing else is being opened.
final class WorkerPool: Sendable {
    typealias Task = @Sendable () -> Void

    private struct Queues {
        var small = Deque<Task>()
        var staging = Deque<Task>()
        var large = Deque<Task>()
        var largeBeingOpened = 0
        var isStopping = false

        mutating func next(_ hasRoom: () -> Bool) -> (task: Task, isLarge: Bool)? {
            if let task = small.popFirst() ?? staging.popFirst() { return (task, false) }
            // The oldest frame may hold back jobs behind it that fill the room, so one is always opened.
            guard largeBeingOpened == 0 || hasRoom(), let task = large.popFirst() else { return nil }
            largeBeingOpened += 1
            return (task, true)
        }
    }

    private let queues = Monitor(Queues())
    private let threads: [Thread]

    /// - Parameter hasRoom: asked under the pool's lock; must not call the pool.
    init(count: Int, hasRoom: @escaping @Sendable () -> Bool) {
        let queues = queues
        threads = (0..<count).map { number in
            Thread(named: "worker-\(number)") { Self.run(queues, hasRoom) }
        }
    }

    /// Queue depths: frames to open and collections to stage.
    var depths: (opening: Int, staging: Int) {
        queues.withLock { ($0.small.count + $0.large.count, $0.staging.count) }
    }

    func open(isSmall: Bool, _ task: @escaping Task) {
        queues.signal { queues in
            if isSmall { queues.small.append(task) } else { queues.large.append(task) }
            return true
        }
    }

    func stage(_ task: @escaping Task) {
        queues.signal { queues in
            queues.staging.append(task)
            return true
        }
    }

    /// There may be room again.
    func wake() { queues.broadcast { !$0.large.isEmpty } }

    /// Does what is queued, then ends the threads. Called once.
    func stop() {
        queues.broadcast {
            $0.isStopping = true
            return true
        }
        for thread in threads { thread.join() }
    }

    private static func run(_ queues: Monitor<Queues>, _ hasRoom: @Sendable () -> Bool) {
        while true {
            let next = queues.wait { queues -> (task: Task, isLarge: Bool)?? in
                if let next = queues.next(hasRoom) { return .some(next) }
                let isDone = queues.isStopping && queues.large.isEmpty && queues.largeBeingOpened == 0
                return isDone ? .some(nil) : nil
            }
            guard let next else { return }
            next.task()
            guard next.isLarge else { continue }
            queues.broadcast { queues in
                queues.largeBeingOpened -= 1
                return !queues.large.isEmpty || queues.isStopping
            }
        }
    }
}
