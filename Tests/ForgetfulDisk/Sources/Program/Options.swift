import CFuse
import Glibc
import Synchronization
import Volume

/// The arguments of the program.
struct Options {
    let mountPoint: String
    private(set) var size = 256 << 20
    private(set) var seed: UInt64 = 0
    private(set) var survival = Survival.some

    /// Ends the process when they cannot be understood.
    init(_ arguments: ArraySlice<String>) {
        var arguments = arguments
        guard let folder = arguments.popFirst(), !folder.hasPrefix("-") else {
            fail("usage: forgetful-disk MOUNTPOINT [--size BYTES] [--seed N] [--unsynced none|some]")
        }
        guard let path = realpath(folder, nil) else { fail("\(folder): \(String(cString: strerror(errno)))") }
        mountPoint = String(cString: path)
        free(path)
        while let name = arguments.popFirst() {
            let value = arguments.popFirst() ?? ""
            switch name {
            case "--size": size = Self.value(Int(value).flatMap { $0 >= 0 ? $0 : nil }, of: name, value)
            case "--seed": seed = Self.value(UInt64(value), of: name, value)
            case "--unsynced": survival = Self.value(Survival(rawValue: value), of: name, value)
            default: fail("\(name) is not an option")
            }
        }
    }

    private static func value<Value>(_ value: Value?, of name: String, _ text: String) -> Value {
        guard let value else { fail("\(name) cannot be \"\(text)\"") }
        return value
    }
}

/// Writes a line to the standard error and ends the process with 1.
func fail(_ message: String) -> Never {
    complain(message)
    exit(1)
}

/// Writes a line to the standard error.
func complain(_ message: String) { write("forgetful-disk: \(message)", to: STDERR_FILENO) }

/// Writes a line to the standard output.
func report(_ line: String) { write(line, to: STDOUT_FILENO) }

private func write(_ line: String, to descriptor: Int32) {
    let bytes = Array("\(line)\n".utf8)
    _ = Glibc.write(descriptor, bytes, bytes.count)
}

/// The processes that use a file system.
enum Users {
    /// Their numbers and names, and one path of each.
    static func of(_ mountPoint: String) -> String {
        names(in: "/proc").filter { Int($0) != nil }.compactMap { process in
            path(of: process, on: mountPoint).map { "\(process) (\(name(of: process)): \($0))" }
        }.joined(separator: ", ")
    }

    /// The processes in whose mount namespace it is mounted.
    static func mounting(_ mountPoint: String) -> String {
        names(in: "/proc").filter { Int($0) != nil && hasMount($0, mountPoint) }
            .map { "\($0) (\(name(of: $0)))" }.joined(separator: ", ")
    }

    private static func hasMount(_ process: String, _ mountPoint: String) -> Bool {
        guard let file = fopen("/proc/\(process)/mounts", "r") else { return false }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 2 * Int(PATH_MAX))
        while fgets(&line, Int32(line.count), file) != nil {
            if text(line).split(separator: " ").dropFirst().first.map(String.init) == mountPoint { return true }
        }
        return false
    }

    /// The first line in a buffer of C.
    private static func text(_ line: [CChar]) -> String {
        String(decoding: line.prefix { $0 != 0 && $0 != 10 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    private static func path(of process: String, on mountPoint: String) -> String? {
        let folder = "/proc/\(process)"
        let links =
            ["cwd", "root", "exe"]
            + ["fd", "map_files"].flatMap { kind in
                names(in: "\(folder)/\(kind)").map { "\(kind)/\($0)" }
            }
        return links.lazy.compactMap { target(of: "\(folder)/\($0)") }.first {
            $0 == mountPoint || $0.hasPrefix(mountPoint + "/")
        }
    }

    private static func name(of process: String) -> String {
        guard let file = fopen("/proc/\(process)/comm", "r") else { return "?" }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 64)
        guard fgets(&line, Int32(line.count), file) != nil else { return "?" }
        return text(line)
    }

    private static func names(in folder: String) -> [String] {
        guard let stream = opendir(folder) else { return [] }
        defer { closedir(stream) }
        var names: [String] = []
        while let entry = readdir(stream) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: Int(NAME_MAX) + 1) { String(cString: $0) }
            }
            if !name.hasPrefix(".") { names.append(name) }
        }
        return names
    }

    private static func target(of link: String) -> String? {
        var buffer = [UInt8](repeating: 0, count: Int(PATH_MAX))
        let count = buffer.withUnsafeMutableBytes { bytes in
            bytes.baseAddress.map { readlink(link, $0.assumingMemoryBound(to: CChar.self), bytes.count) } ?? -1
        }
        return count < 0 ? nil : String(decoding: buffer.prefix(count), as: UTF8.self)
    }
}

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
