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

extension Mount {
    /// The functions that libfuse calls. Locks are the kernel's; so are the offsets of lseek, and what else is missing here.
    static var operations: fuse_lowlevel_ops {
        var operations = fuse_lowlevel_ops()
        operations.`init` = { _, connection in Mount.negotiate(connection) }
        addNames(to: &operations)
        addFiles(to: &operations)
        addDirectories(to: &operations)
        return operations
    }

    private static func negotiate(_ connection: UnsafeMutablePointer<fuse_conn_info>?) {
        guard let connection else { return }
        // The kernel's pages are always right: it need not discard them when the times of a file change.
        // Without FUSE_CAP_WRITEBACK_CACHE it sends each write at once; pages of shared mappings are sent by syncs and unmounting.
        let wanted = UInt32(FUSE_CAP_EXPLICIT_INVAL_DATA)
        let unwanted = UInt32(FUSE_CAP_AUTO_INVAL_DATA | FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_HANDLE_KILLPRIV)
        connection.pointee.want &= ~unwanted
        connection.pointee.want |= wanted & connection.pointee.capable
    }

    // MARK: - Names

    private static func addNames(to operations: inout fuse_lowlevel_ops) {
        operations.lookup = { request, parent, name in
            Mount.answer(request) { mount throws(FileError) in
                guard let inode = try mount.volume.lookup(Mount.bytes(name), in: parent) else {
                    var entry = Mount.absentEntry
                    fuse_reply_entry(request, &entry)
                    return
                }
                var entry = Mount.entry(of: inode)
                mount.volume.retain(inode)
                fuse_reply_entry(request, &entry)
            }
        }
        operations.forget = { request, number, count in
            Mount.of(request).volume.forget(number, count: count)
            fuse_reply_none(request)
        }
        operations.mknod = { request, parent, name, mode, device in
            Mount.make(request, parent, Mount.bytes(name), mode, device: device)
        }
        operations.mkdir = { request, parent, name, mode in
            Mount.make(request, parent, Mount.bytes(name), S_IFDIR | mode)
        }
        operations.symlink = { request, target, parent, name in
            Mount.make(request, parent, Mount.bytes(name), S_IFLNK | 0o777, target: Mount.bytes(target))
        }
        operations.link = { request, number, parent, name in
            Mount.answerEntry(request) { mount throws(FileError) in
                try mount.volume.link(number, to: Mount.bytes(name), in: parent)
            }
        }
        operations.unlink = { request, parent, name in
            Mount.complete(request) { mount throws(FileError) in
                try mount.volume.remove(Mount.bytes(name), in: parent, isDirectory: false)
            }
        }
        operations.rmdir = { request, parent, name in
            Mount.complete(request) { mount throws(FileError) in
                try mount.volume.remove(Mount.bytes(name), in: parent, isDirectory: true)
            }
        }
        operations.rename = { request, parent, name, newParent, newName, flags in
            Mount.complete(request) { mount throws(FileError) in
                // RENAME_NOREPLACE is 1; neither of the others is supported.
                guard flags <= 1 else { throw FileError(EINVAL) }
                try mount.volume.rename(
                    Mount.bytes(name), in: parent, to: Mount.bytes(newName), in: newParent, mayReplace: flags == 0)
            }
        }
        operations.readlink = { request, number in
            Mount.answer(request) { mount throws(FileError) in
                let target = try mount.volume.inode(number).target
                fuse_reply_readlink(request, target.map { CChar(bitPattern: $0) } + [0])
            }
        }
    }

    private static func make(
        _ request: Request, _ parent: UInt64, _ name: [UInt8], _ mode: mode_t, target: [UInt8] = [], device: dev_t = 0
    ) {
        answerEntry(request) { mount throws(FileError) in
            try mount.volume.create(name, in: parent, attributes(request, mode), target: target, device: device)
        }
    }

    // MARK: - Directories

    private static func addDirectories(to operations: inout fuse_lowlevel_ops) {
        operations.opendir = { request, number, information in
            let mount = Mount.of(request)
            information?.pointee.fh = mount.addListing()
            fuse_reply_open(request, information)
        }
        operations.readdir = { request, number, size, offset, information in
            Mount.answer(request) { mount throws(FileError) in
                try mount.list(request, number, size, from: Int(offset), handle: information?.pointee.fh ?? 0)
            }
        }
        operations.releasedir = { request, number, information in
            if let information { Mount.of(request).listings[information.pointee.fh] = nil }
            fuse_reply_err(request, 0)
        }
        operations.fsyncdir = { request, _, _, _ in Mount.complete(request) { $0.volume.commit() } }
        operations.statfs = { request, _ in
            let volume = Mount.of(request).volume
            var status = statvfs()
            status.f_bsize = 4096
            status.f_frsize = 4096
            status.f_blocks = UInt(volume.pageLimit)
            status.f_bfree = UInt(max(0, volume.pageLimit - volume.usedPages))
            status.f_bavail = status.f_bfree
            status.f_files = UInt(volume.inodeCount) + 1 << 20
            status.f_ffree = 1 << 20
            status.f_favail = status.f_ffree
            status.f_namemax = UInt(Volume.nameLimit)
            fuse_reply_statfs(request, &status)
        }
    }

    /// The names from an index of the listing. They are of the time of the first reading, so that a process may remove them while
    /// it reads.
    private func list(
        _ request: Request, _ number: UInt64, _ size: Int, from offset: Int, handle: UInt64
    ) throws(FileError) {
        if offset == 0 {
            let directory = try volume.inode(number)
            listings[handle] =
                [(Array(".".utf8), directory), (Array("..".utf8), directory)] + (try volume.entries(of: number))
        }
        let buffer = buffer(size)
        var used = 0
        for (index, (name, inode)) in (listings[handle] ?? []).enumerated().dropFirst(offset) {
            var status = Self.status(of: inode)
            let length = fuse_add_direntry(
                request, buffer.baseAddress?.advanced(by: used).assumingMemoryBound(to: CChar.self), size - used,
                name.map { CChar(bitPattern: $0) } + [0], &status, off_t(index + 1))
            if length > size - used { break }
            used += length
        }
        fuse_reply_buf(request, buffer.baseAddress?.assumingMemoryBound(to: CChar.self), used)
    }
}

typealias Request = fuse_req_t?
typealias Name = UnsafePointer<CChar>?
typealias FileInformation = UnsafeMutablePointer<fuse_file_info>?

/// The kernel may cache names and attributes: only it changes them, and it forgets them when it unmounts.
private let cacheSeconds = 1e6

extension Mount {
    /// Answers a request with an error when the operation throws one, or by itself.
    static func answer(_ request: Request, _ operation: (Mount) throws(FileError) -> Void) {
        do throws(FileError) {
            try operation(of(request))
        } catch {
            fuse_reply_err(request, error.number)
        }
    }

    /// Answers a request that has no result.
    static func complete(_ request: Request, _ operation: (Mount) throws(FileError) -> Void) {
        answer(request) { mount throws(FileError) in
            try operation(mount)
            fuse_reply_err(request, 0)
        }
    }

    /// Answers a request for a name with the file.
    static func answerEntry(_ request: Request, _ operation: (Mount) throws(FileError) -> Inode) {
        answer(request) { mount throws(FileError) in
            let inode = try operation(mount)
            var entry = entry(of: inode)
            mount.volume.retain(inode)
            fuse_reply_entry(request, &entry)
        }
    }

    static func of(_ request: Request) -> Mount {
        guard let pointer = fuse_req_userdata(request) else { fail("libfuse gave a request without a mount") }
        return Unmanaged<Mount>.fromOpaque(pointer).takeUnretainedValue()
    }

    static func entry(of inode: Inode) -> fuse_entry_param {
        var entry = fuse_entry_param()
        entry.ino = inode.number
        entry.attr = status(of: inode)
        entry.attr_timeout = cacheSeconds
        entry.entry_timeout = cacheSeconds
        return entry
    }

    /// The answer to a name that no file has.
    static var absentEntry: fuse_entry_param {
        var entry = fuse_entry_param()
        entry.entry_timeout = cacheSeconds
        return entry
    }

    static func answerStatus(_ request: Request, of inode: Inode) {
        var status = status(of: inode)
        fuse_reply_attr(request, &status, cacheSeconds)
    }

    static func status(of inode: Inode) -> stat {
        var status = stat()
        status.st_ino = UInt(inode.number)
        status.st_mode = inode.attributes.mode
        status.st_uid = inode.attributes.owner
        status.st_gid = inode.attributes.group
        status.st_nlink = UInt(inode.links + (inode.isDirectory && inode.links > 0 ? 1 : 0))
        status.st_rdev = inode.device
        status.st_size = inode.size
        status.st_blksize = 4096
        status.st_blocks = inode.pageCount * 8
        status.st_atim = inode.times.accessed
        status.st_mtim = inode.times.modified
        status.st_ctim = inode.times.changed
        return status
    }

    /// The mode, with the owner of the process that asks.
    static func attributes(_ request: Request, _ mode: mode_t) -> Attributes {
        let context = fuse_req_ctx(request)
        return Attributes(mode: mode, owner: context?.pointee.uid ?? 0, group: context?.pointee.gid ?? 0)
    }

    static func bytes(_ name: Name) -> [UInt8] {
        guard let name else { return [] }
        return [UInt8](UnsafeRawBufferPointer(start: name, count: strlen(name)))
    }
}

extension Mount {
    static func addFiles(to operations: inout fuse_lowlevel_ops) {
        operations.getattr = { request, number, _ in
            Mount.answer(request) { mount throws(FileError) in
                Mount.answerStatus(request, of: try mount.volume.inode(number))
            }
        }
        operations.setattr = { request, number, status, fields, _ in
            Mount.answer(request) { mount throws(FileError) in
                guard let status = status?.pointee else { throw FileError(EINVAL) }
                try mount.set(request, number, status, fields)
            }
        }
        operations.open = { request, _, information in
            Mount.prepare(information)
            fuse_reply_open(request, information)
        }
        operations.create = { request, parent, name, mode, information in
            Mount.answer(request) { mount throws(FileError) in
                let inode = try mount.volume.create(
                    Mount.bytes(name), in: parent, Mount.attributes(request, S_IFREG | mode))
                Mount.prepare(information)
                var entry = Mount.entry(of: inode)
                mount.volume.retain(inode)
                fuse_reply_create(request, &entry, information)
            }
        }
        operations.read = { request, number, size, offset, _ in
            Mount.answer(request) { mount throws(FileError) in
                let buffer = mount.buffer(size)
                let count = try mount.volume.read(number, into: buffer, from: Int(offset))
                fuse_reply_buf(request, buffer.baseAddress?.assumingMemoryBound(to: CChar.self), count)
            }
        }
        operations.write = { request, number, bytes, size, offset, information in
            Mount.answer(request) { mount throws(FileError) in
                let isSynchronous = (information?.pointee.flags ?? 0) & O_DSYNC != 0
                let count = try mount.volume.write(
                    UnsafeRawBufferPointer(start: bytes, count: size), to: number, at: Int(offset),
                    isSynchronous: isSynchronous)
                fuse_reply_write(request, count)
            }
        }
        operations.release = { request, _, _ in fuse_reply_err(request, 0) }
        operations.fsync = { request, number, _, _ in
            Mount.complete(request) { mount throws(FileError) in try mount.volume.sync(number) }
        }
        operations.fallocate = { request, number, mode, offset, length, _ in
            Mount.complete(request) { mount throws(FileError) in
                // FALLOC_FL_KEEP_SIZE is 1; the others are not supported.
                guard mode == 0 || mode == 1 else { throw FileError(EOPNOTSUPP) }
                let (end, overflows) = Int(offset).addingReportingOverflow(Int(length))
                guard offset >= 0, length > 0, !overflows else { throw FileError(EINVAL) }
                try mount.volume.allocate(number, Int(offset)..<end, isGrowing: mode == 0)
            }
        }
    }

    /// The kernel keeps its pages when a file is opened again, and does not announce each close.
    private static func prepare(_ information: FileInformation) {
        information?.pointee.keep_cache = 1
        information?.pointee.noflush = 1
    }

    private func set(_ request: Request, _ number: UInt64, _ status: stat, _ fields: Int32) throws(FileError) {
        func has(_ field: Int32) -> Bool { fields & field != 0 }
        let inode = try volume.change(
            number, mode: has(FUSE_SET_ATTR_MODE) ? status.st_mode : nil,
            owner: has(FUSE_SET_ATTR_UID) ? status.st_uid : nil, group: has(FUSE_SET_ATTR_GID) ? status.st_gid : nil,
            size: has(FUSE_SET_ATTR_SIZE) ? status.st_size : nil)
        let now = inode.times.changed
        volume.setTimes(
            of: inode,
            accessed: has(FUSE_SET_ATTR_ATIME_NOW) ? now : has(FUSE_SET_ATTR_ATIME) ? status.st_atim : nil,
            modified: has(FUSE_SET_ATTR_MTIME_NOW) ? now : has(FUSE_SET_ATTR_MTIME) ? status.st_mtim : nil)
        Self.answerStatus(request, of: inode)
    }
}
