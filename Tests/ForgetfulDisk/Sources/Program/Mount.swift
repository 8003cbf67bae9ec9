import CFuse
import Glibc
import Volume

/// The connection of a volume to the kernel. Each mount makes another session; the volume stays.
final class Mount {
    let volume: Volume
    private let mountPoint: String
    private var session: OpaquePointer?
    /// The names of open directories, as of their first reading.
    var listings: [UInt64: [(name: [UInt8], inode: Inode)]] = [:]
    private var lastListing: UInt64 = 0
    /// The bytes that are sent to the kernel; at most as many as it asks for at once.
    private(set) var buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 4096)

    init(_ options: Options) {
        mountPoint = options.mountPoint
        volume = Volume(size: options.size, seed: options.seed, survival: options.survival)
    }

    /// Mounts the volume.
    func open() {
        listings = [:]
        let words = ["forgetful-disk", "-o", "allow_other,default_permissions,fsname=forgetful-disk"]
        var pointers = words.map { strdup($0) }
        defer { for pointer in pointers { free(pointer) } }
        var operations = Self.operations
        session = pointers.withUnsafeMutableBufferPointer { pointers in
            var arguments = fuse_args(argc: Int32(pointers.count), argv: pointers.baseAddress, allocated: 0)
            defer { fuse_opt_free_args(&arguments) }
            return fuse_session_new(
                &arguments, &operations, MemoryLayout<fuse_lowlevel_ops>.size,
                Unmanaged.passUnretained(self).toOpaque())
        }
        guard session != nil else { fail("libfuse does not accept the options") }
        guard fuse_session_mount(session, mountPoint) == 0 else { fail("\(mountPoint) cannot be mounted") }
    }

    /// Answers the kernel until it has unmounted the file system.
    func serve() {
        let result = fuse_session_loop(session)
        guard result == 0 else { fail("the kernel's requests cannot be read: \(String(cString: strerror(-result)))") }
        // The kernel has ended the connection: this only closes the descriptor.
        fuse_session_unmount(session)
        fuse_session_destroy(session)
        session = nil
    }

    func addListing() -> UInt64 {
        lastListing += 1
        return lastListing
    }

    /// The buffer, with space for so many bytes.
    func buffer(_ count: Int) -> UnsafeMutableRawBufferPointer {
        if count > buffer.count {
            buffer.deallocate()
            buffer = .allocate(byteCount: count, alignment: 4096)
        }
        return UnsafeMutableRawBufferPointer(rebasing: buffer[..<count])
    }
}
