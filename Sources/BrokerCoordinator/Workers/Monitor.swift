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

    /// As ``withLock(_:)``; wakes all waiting threads.
    func update(_ body: (inout State) -> Void) {
        broadcast { state in
            body(&state)
            return true
        }
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
