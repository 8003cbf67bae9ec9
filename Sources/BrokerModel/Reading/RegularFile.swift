internal import Glibc

/// Opens configurations and models. A pipe among them would stop a server until another program writes to it.
package enum RegularFile {
    /// The end of a sentence that begins with the path.
    package struct Refusal: Error {
        package let reason: String
    }

    /// - Returns: a descriptor, which the caller closes.
    package static func open(_ path: String) throws(Refusal) -> Int32 {
        // Without a reader or writer at the other end, a pipe is opened at once.
        let descriptor = Glibc.open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
        guard descriptor >= 0 else { throw Refusal(reason: "cannot be read: \(String(cString: strerror(errno)))") }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            close(descriptor)
            let isFolder = status.st_mode & S_IFMT == S_IFDIR
            throw Refusal(
                reason: "cannot be read: it is a \(isFolder ? "folder" : "pipe or device"), and no regular file")
        }
        return descriptor
    }

    /// - Parameter limit: of a longer file, one byte more than that is read.
    package static func bytes(of path: String, limit: Int) throws(Refusal) -> [UInt8] {
        let descriptor = try open(path)
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        while bytes.count <= limit {
            var count = 0
            bytes += [UInt8](unsafeUninitializedCapacity: min(limit + 1 - bytes.count, 1 << 20)) { space, filled in
                count = read(descriptor, space.baseAddress, space.count)
                filled = max(0, count)
            }
            guard count > 0 else {
                if count == 0 { return bytes }
                throw Refusal(reason: "cannot be read: \(String(cString: strerror(errno)))")
            }
        }
        return bytes
    }
}
