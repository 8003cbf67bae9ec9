import CFuse
import Glibc
import Volume

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
