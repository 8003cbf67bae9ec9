// Raw threads and condition variables. All of Broker's are in this file.
//
// Parsing, staging and SQLite block, so they run on threads of their own, never on an event loop or on the cooperative
// pool.
internal import Glibc

/// State protected by a lock, with a condition to wait on.
///
/// Code touches `State` only inside ``withLock(_:)``, ``wait(_:)`` and their siblings, whose bodies must be short and
/// never block.
final class Monitor<State>: @unchecked Sendable {
    // All state is reached through these two, which the C library makes safe across threads.
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
    private var state: State

    init(_ state: sending State) {
        self.state = state
        pthread_mutex_init(mutex, nil)
        var attributes = pthread_condattr_t()
        pthread_condattr_init(&attributes)
        // Deadlines use the monotonic clock, which cannot be set.
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        pthread_cond_init(condition, &attributes)
        pthread_condattr_destroy(&attributes)
    }

    deinit {
        pthread_cond_destroy(condition)
        pthread_mutex_destroy(mutex)
        condition.deallocate()
        mutex.deallocate()
    }

    func withLock<Result>(_ body: (inout State) -> Result) -> Result {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return body(&state)
    }

    /// As ``withLock(_:)``; wakes one waiting thread when `body` returns true.
    func signal(_ body: (inout State) -> Bool) {
        pthread_mutex_lock(mutex)
        let shouldWake = body(&state)
        pthread_mutex_unlock(mutex)
        if shouldWake { pthread_cond_signal(condition) }
    }

    /// As ``withLock(_:)``; wakes all waiting threads when `body` returns true.
    func broadcast(_ body: (inout State) -> Bool) {
        pthread_mutex_lock(mutex)
        let shouldWake = body(&state)
        pthread_mutex_unlock(mutex)
        if shouldWake { pthread_cond_broadcast(condition) }
    }

    /// Waits until `body` returns a result; it is called at once and after every wake-up.
    func wait<Result>(_ body: (inout State) -> Result?) -> Result {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        while true {
            if let result = body(&state) { return result }
            pthread_cond_wait(condition, mutex)
        }
    }

    /// As ``wait(_:)``, up to a time. Returns nil when there is no result by then.
    ///
    /// - Parameter deadline: in microseconds of the monotonic clock.
    func wait<Result>(until deadline: Int64, _ body: (inout State) -> Result?) -> Result? {
        var time = timespec(tv_sec: Int(deadline / 1_000_000), tv_nsec: Int(deadline % 1_000_000) * 1_000)
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        while true {
            if let result = body(&state) { return result }
            if pthread_cond_timedwait(condition, mutex, &time) == ETIMEDOUT { return body(&state) }
        }
    }
}

/// A thread that runs one function, and whose end can be waited for.
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
        queue.broadcast {
            $0.isStopping = true
            return true
        }
        thread.join()
    }
}

/// Microseconds of a clock that never goes back.
func monotonicMicroseconds() -> Int64 {
    var now = timespec()
    clock_gettime(CLOCK_MONOTONIC, &now)
    return Int64(now.tv_sec) * 1_000_000 + Int64(now.tv_nsec) / 1_000
}

/// Milliseconds since 1970.
func wallClockMilliseconds() -> Int64 {
    var now = timespec()
    clock_gettime(CLOCK_REALTIME, &now)
    return Int64(now.tv_sec) * 1_000 + Int64(now.tv_nsec) / 1_000_000
}
