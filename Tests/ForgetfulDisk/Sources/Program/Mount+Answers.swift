import CFuse
import Glibc
import Volume

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
