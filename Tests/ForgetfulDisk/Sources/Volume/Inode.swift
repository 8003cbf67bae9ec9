package import Glibc

/// A file, directory, symbolic link or socket of a volume.
package final class Inode {
    package let number: UInt64
    /// The rights and the owner now, and on the disk.
    package internal(set) var attributes: Attributes
    var syncedAttributes: Attributes
    package internal(set) var times = Times()
    /// The target of a symbolic link.
    package let target: [UInt8]
    /// The device of a device file.
    package let device: dev_t

    package internal(set) var links = 0
    /// The names that the kernel has looked up and not forgotten.
    var lookups: UInt64 = 0

    var content = FileContent()
    /// The names in a directory now, and on the disk.
    var entries: [[UInt8]: UInt64] = [:]
    var syncedEntries: [[UInt8]: UInt64] = [:]

    init(_ number: UInt64, _ attributes: Attributes, target: [UInt8] = [], device: dev_t = 0) {
        self.number = number
        self.attributes = attributes
        self.target = target
        self.device = device
        syncedAttributes = attributes
    }

    package var isDirectory: Bool { attributes.mode & S_IFMT == S_IFDIR }

    package var size: Int { target.isEmpty ? content.size : target.count }

    package var pageCount: Int { content.pageCount }

    /// Neither a name nor a process has it.
    var isUnused: Bool { links == 0 && lookups == 0 }
}

package struct Attributes: Equatable {
    /// With the type of the file.
    package var mode: mode_t
    package var owner: uid_t
    package var group: gid_t

    package init(mode: mode_t, owner: uid_t, group: gid_t) {
        self.mode = mode
        self.owner = owner
        self.group = group
    }
}

package struct Times {
    package var accessed = timespec.now
    package var modified = timespec.now
    package var changed = timespec.now
}

extension timespec {
    package static var now: timespec {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return time
    }
}
