import ArgumentParser
import Glibc

/// Users and groups of this system, as named on the command line: digits are a number, anything else is a name.
enum Account {
    static func user(_ text: String, of option: String) throws(ValidationError) -> UInt32 {
        try find(text, "user", option) { name in
            var (entry, found) = (passwd(), UnsafeMutablePointer<passwd>?.none)
            return search { buffer, size in
                (getpwnam_r(name, &entry, buffer, size, &found), found?.pointee.pw_uid)
            }
        }
    }

    static func group(_ text: String, of option: String) throws(ValidationError) -> UInt32 {
        try find(text, "group", option) { name in
            var (entry, found) = (Glibc.group(), UnsafeMutablePointer<Glibc.group>?.none)
            return search { buffer, size in
                (getgrnam_r(name, &entry, buffer, size, &found), found?.pointee.gr_gid)
            }
        }
    }

    private enum Finding {
        case number(UInt32)
        case nobody
        /// An error of the system, by `errno`.
        case failed(Int32)
    }

    private static func find(
        _ text: String, _ kind: String, _ option: String, _ search: (String) -> Finding
    ) throws(ValidationError) -> UInt32 {
        if !text.isEmpty, text.utf8.allSatisfy((UInt8(ascii: "0")...UInt8(ascii: "9")).contains) {
            // chown(2) and similar calls treat the highest number as "no change".
            guard let number = UInt32(text), number != .max else {
                throw ValidationError("\(option): \(text) is the number of no \(kind).")
            }
            return number
        }
        switch search(text) {
        case .number(let number): return number
        case .nobody:
            throw ValidationError(
                "\(option): there is no \(kind) \"\(text)\" here. Give a name or a number that there is.")
        case .failed(let cause):
            throw ValidationError(
                "\(option): the \(kind) \"\(text)\" cannot be looked up (\(String(cString: strerror(cause)))). Give the "
                    + "number.")
        }
    }

    /// Bytes for an entry: a group's entry has the names of all its members.
    private static let firstBytes = 4 << 10
    private static let mostBytes = 16 << 20

    /// - Parameter attempt: returns the C library's result, and the number that it found.
    private static func search(_ attempt: (UnsafeMutablePointer<CChar>, Int) -> (result: Int32, number: UInt32?))
        -> Finding
    {
        var size = firstBytes
        while true {
            let buffer = UnsafeMutablePointer<CChar>.allocate(capacity: size)
            defer { buffer.deallocate() }
            let (result, number) = attempt(buffer, size)
            if let number, result == 0 { return .number(number) }
            switch result {
            // The manual's result for names that do not exist (getpwnam(3)).
            case 0, ENOENT, ESRCH, EBADF, EPERM: return .nobody
            case ERANGE where size < mostBytes: size *= 4
            case EINTR: continue
            default: return .failed(result)
            }
        }
    }
}
