internal import Glibc

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
