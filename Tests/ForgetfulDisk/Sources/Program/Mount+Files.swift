import CFuse
import Glibc
import Volume

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
