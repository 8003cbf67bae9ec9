public import Glibc

/// State protected by a lock, with a condition to wait on.
///
/// Code touches `State` only inside ``withLock(_:)``, ``wait(_:)`` and their siblings, whose bodies must be short and
/// never block.
///
/// Public, as the compiler inlines no function of the access level `package` into another module: each call looked up the metadata of
/// its types then, which made 6 % of a small job.
public struct Monitor<State>: @unchecked Sendable {
    /// All of it is reached through the locks below, which the C library makes safe across threads; they exclude accesses
    /// that overlap.
    @usableFromInline struct Guarded {
        @usableFromInline var mutex = pthread_mutex_t()
        @usableFromInline var condition = pthread_cond_t()
        @usableFromInline var state: State
    }

    /// The state and its lock at one address, in one allocation.
    @usableFromInline final class Storage: ManagedBuffer<Guarded, Void> {
        deinit {
            withUnsafeMutablePointerToHeader { guarded in
                pthread_cond_destroy(&guarded.pointee.condition)
                pthread_mutex_destroy(&guarded.pointee.mutex)
            }
        }
    }

    @usableFromInline let storage: Storage

    /// Valid as long as the storage.
    @inlinable var guarded: UnsafeMutablePointer<Guarded> { storage.withUnsafeMutablePointerToHeader { $0 } }

    public init(_ state: sending State) {
        let guarded = Guarded(state: state)
        storage = unsafeDowncast(Storage.create(minimumCapacity: 0) { _ in guarded }, to: Storage.self)
        storage.withUnsafeMutablePointerToHeader { guarded in
            pthread_mutex_init(&guarded.pointee.mutex, nil)
            var attributes = pthread_condattr_t()
            pthread_condattr_init(&attributes)
            // Deadlines use the monotonic clock, which cannot be set.
            pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
            pthread_cond_init(&guarded.pointee.condition, &attributes)
            pthread_condattr_destroy(&attributes)
        }
    }

    @inlinable public func withLock<Result, Failure>(
        _ body: (inout State) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        pthread_mutex_lock(&guarded.pointee.mutex)
        defer { pthread_mutex_unlock(&guarded.pointee.mutex) }
        return try body(&guarded.pointee.state)
    }

    /// As ``withLock(_:)``; wakes one waiting thread when `body` returns true.
    @inlinable public func signal(_ body: (inout State) -> Bool) {
        if withLock(body) { pthread_cond_signal(&guarded.pointee.condition) }
    }

    /// As ``withLock(_:)``; wakes all waiting threads when `body` returns true.
    @inlinable public func broadcast(_ body: (inout State) -> Bool) {
        if withLock(body) { pthread_cond_broadcast(&guarded.pointee.condition) }
    }

    /// As ``withLock(_:)``; wakes all waiting threads.
    @inlinable public func update(_ body: (inout State) -> Void) {
        broadcast { state in
            body(&state)
            return true
        }
    }

    /// Waits until `body` returns a result; it is called at once and after every wake-up.
    @inlinable public func wait<Result>(_ body: (inout State) -> Result?) -> Result {
        pthread_mutex_lock(&guarded.pointee.mutex)
        defer { pthread_mutex_unlock(&guarded.pointee.mutex) }
        while true {
            if let result = body(&guarded.pointee.state) { return result }
            pthread_cond_wait(&guarded.pointee.condition, &guarded.pointee.mutex)
        }
    }

    /// As ``wait(_:)``, up to a time of the monotonic clock in microseconds. Returns nil when there is no result by then.
    @inlinable public func wait<Result>(until deadline: Int64, _ body: (inout State) -> Result?) -> Result? {
        var time = timespec(tv_sec: Int(deadline / 1_000_000), tv_nsec: Int(deadline % 1_000_000) * 1_000)
        pthread_mutex_lock(&guarded.pointee.mutex)
        defer { pthread_mutex_unlock(&guarded.pointee.mutex) }
        while true {
            if let result = body(&guarded.pointee.state) { return result }
            if pthread_cond_timedwait(&guarded.pointee.condition, &guarded.pointee.mutex, &time) == ETIMEDOUT {
                return body(&guarded.pointee.state)
            }
        }
    }
}

/// Microseconds of a clock that never goes back.
package func monotonicMicroseconds() -> Int64 {
    var now = timespec()
    clock_gettime(CLOCK_MONOTONIC, &now)
    return Int64(now.tv_sec) * 1_000_000 + Int64(now.tv_nsec) / 1_000
}
