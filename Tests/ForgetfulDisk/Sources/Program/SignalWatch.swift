import CFuse
import Glibc
import Synchronization

/// The thread that receives the signals and unmounts the file system, while the first thread answers the kernel.
final class SignalWatch: Sendable {
    enum Request { case cut, end }

    /// How long the kernel may take to write back its pages, and the volume to revert.
    private static let patience = 20

    private let mountPoint: String
    private let current = Mutex<Request?>(nil)
    private let completion = Semaphore()

    /// Starts the thread. Other threads of the process do not receive the signals any more.
    init(mountPoint: String) {
        self.mountPoint = mountPoint
        var signals = sigset_t()
        sigemptyset(&signals)
        for number in [SIGUSR1, SIGTERM, SIGINT] { sigaddset(&signals, number) }
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        var thread = pthread_t()
        let result = pthread_create(
            &thread, nil,
            { pointer in
                guard let pointer else { return nil }
                Unmanaged<SignalWatch>.fromOpaque(pointer).takeRetainedValue().run()
            }, Unmanaged.passRetained(self).toOpaque())
        guard result == 0 else { fail("a thread cannot be made: \(String(cString: strerror(result)))") }
    }

    /// The reason for which the file system was unmounted.
    var request: Request? { current.withLock { $0 } }

    /// The request has been carried out.
    func complete() {
        current.withLock { $0 = nil }
        completion.signal()
    }

    private func run() -> Never {
        var signals = sigset_t()
        sigemptyset(&signals)
        for number in [SIGUSR1, SIGTERM, SIGINT] { sigaddset(&signals, number) }
        while true {
            var signal: Int32 = 0
            guard sigwait(&signals, &signal) == 0 else { continue }
            current.withLock { $0 = signal == SIGUSR1 ? .cut : .end }
            unmount()
            if !completion.wait(seconds: Self.patience) {
                let users = Users.mounting(mountPoint)
                giveUp(
                    "\(mountPoint) is still mounted in the namespace of \(users.isEmpty ? "no known process" : users)"
                )
            }
        }
    }

    private func unmount() {
        guard umount2(mountPoint, 0) != 0 else { return }
        guard errno == EBUSY else { giveUp("\(mountPoint) cannot be unmounted: \(String(cString: strerror(errno)))") }
        let users = Users.of(mountPoint)
        giveUp("\(mountPoint) is in use by \(users.isEmpty ? "no known process" : users)")
    }

    /// Leaves no dead file system.
    private func giveUp(_ message: String) -> Never {
        complain(message)
        umount2(mountPoint, Int32(MNT_DETACH))
        _exit(1)
    }
}

/// A semaphore of the C library.
private final class Semaphore: @unchecked Sendable {
    private let pointer = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)

    init() { sem_init(pointer, 0, 0) }

    deinit {
        sem_destroy(pointer)
        pointer.deallocate()
    }

    func signal() { sem_post(pointer) }

    /// - Returns: whether it was signalled in time.
    func wait(seconds: Int) -> Bool {
        var deadline = timespec()
        clock_gettime(CLOCK_REALTIME, &deadline)
        deadline.tv_sec += seconds
        while sem_timedwait(pointer, &deadline) != 0 {
            if errno != EINTR { return false }
        }
        return true
    }
}
