internal import BrokerJournal
internal import Glibc

/// Asks, and blocks until the answer comes.
func waitForAnswer<Answer, Failure>(
    _ ask: (@escaping @Sendable (Answer) -> Void) throws(Failure) -> Void
) throws(Failure) -> Answer {
    let answer = Monitor<Answer?>(nil)
    try ask { given in answer.update { $0 = given } }
    return answer.wait { $0 }
}

/// A function that is set, replaced and called by any threads; it does nothing until it is set.
///
/// A function must not be the `State` of a ``Monitor`` by itself, nor wrapped in an optional: each access through `inout`
/// would store it again inside another thunk, so that every call would take longer than the one before it.
final class Callback<Argument>: Sendable {
    private struct Function {
        var call: (@Sendable (Argument) -> Void)?
    }

    private let function = Monitor(Function())

    func set(_ call: (@Sendable (Argument) -> Void)?) { function.withLock { $0.call = call } }

    var isSet: Bool { function.withLock { $0.call != nil } }

    func callAsFunction(_ argument: Argument) { function.withLock { $0.call }?(argument) }
}

extension Callback<Void> {
    func callAsFunction() { callAsFunction(()) }
}

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

    /// The processors are those that the workers share with the writer, if they have one.
    init(longTasks: Int, processors: Int = .max, named name: String = "worker") {
        let queues = Monitor(Queues(work: WorkQueues(longLimit: longTasks, processors: processors)))
        self.queues = queues
        threads = (0...longTasks).map { number in
            Thread(named: "\(name)-\(number)") { Self.run(queues) }
        }
    }

    var depths: (opening: Int, staging: Int) { queues.withLock { ($0.opening, $0.staging) } }

    /// - Parameters:
    ///   - source: the owner of the task; the sources of a user take turns.
    ///   - user: users take turns, if there are several.
    func run(
        _ kind: Kind, _ length: Length, from source: Int, of user: UInt32 = 0, _ task: @escaping Task
    ) {
        queues.signal { queues in
            queues.count(kind, 1)
            return queues.work.append(Work(kind: kind, run: task), length, from: source, of: user)
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

/// A thread that runs one function, and whose end can be waited for.
///
/// Parsing, staging and SQLite block, so they run on threads of their own, never on an event loop or on the cooperative pool.
final class Thread: Sendable {
    private let handle: pthread_t

    /// - Parameter name: at most 15 bytes, the kernel's limit; `top -H` shows it.
    init(named name: String, _ body: @escaping @Sendable () -> Void) {
        var handle = pthread_t()
        let context = Unmanaged.passRetained(ThreadBody(name: name, run: body)).toOpaque()
        let result = pthread_create(
            &handle, nil,
            { context in
                let body = Unmanaged<ThreadBody>.fromOpaque(context!).takeRetainedValue()
                nameThisThread(body.name)
                body.run()
                return nil
            }, context)
        precondition(result == 0, "the system gives no more threads: \(String(cString: strerror(result)))")
        self.handle = handle
    }

    /// Waits for the thread's end. Called once.
    func join() { pthread_join(handle, nil) }

    /// No thread will wait for the end. Called once, instead of ``join()``.
    func detach() { pthread_detach(handle) }

    /// Lowers the priority of the calling thread. Optional: where the system refuses, nothing is lost.
    static func lowerPriority() {
        // 0 is the calling thread, and not its process (setpriority(2), "C library/kernel differences").
        _ = setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, niceness)
    }

    /// A quarter of a processor beside one other thread (sched(7), "The nice value"). Work beside the writer retains
    /// the writer's WAL, so it must end.
    private static let niceness: Int32 = 5

    /// Runs blocking code on a thread of its own, for a task that must not block.
    static func run<Result: Sendable>(
        named name: String, _ body: @escaping @Sendable () -> Result
    ) async -> Result {
        await withCheckedContinuation { continuation in
            Thread(named: name) { continuation.resume(returning: body()) }.detach()
        }
    }
}

/// Names the calling thread for `top -H` and debuggers. Optional: where the kernel has no such file, nothing is lost.
private func nameThisThread(_ name: String) {
    let descriptor = open("/proc/thread-self/comm", O_WRONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return }
    _ = write(descriptor, name, name.utf8.count)
    close(descriptor)
}

private final class ThreadBody: Sendable {
    let name: String
    let run: @Sendable () -> Void

    init(name: String, run: @escaping @Sendable () -> Void) {
        self.name = name
        self.run = run
    }
}

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

/// Milliseconds since 1970.
package func wallClockMilliseconds() -> Int64 {
    var now = timespec()
    clock_gettime(CLOCK_REALTIME, &now)
    return Int64(now.tv_sec) * 1_000 + Int64(now.tv_nsec) / 1_000_000
}
