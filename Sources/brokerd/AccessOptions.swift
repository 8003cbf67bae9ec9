import ArgumentParser
import BrokerServer
import Glibc

/// The users of the server, and the permissions of its files.
///
/// All names are looked up while the arguments are parsed, so that an invalid one is a usage error and no file is
/// changed.
struct AccessOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            """
            The permissions of the socket's file, in octal. They limit which processes can connect; --allow-user and \
            --allow-group limit which users are served.
            """, valueName: "mode"))
    var socketMode = "0660"

    @Option(
        help: ArgumentHelp(
            "The group of the socket's file, by name or number. The server must be root or in that group.",
            valueName: "group"))
    var socketGroup: String?

    @Option(
        name: .customLong("allow-user"),
        help: ArgumentHelp(
            """
            A user who may connect, by name or number, beside the server's own and root; with a role as for \
            --allow-group. May be repeated.
            """, valueName: "user[:role]"))
    var allowedUsers: [String] = []

    @Option(
        name: .customLong("allow-group"),
        help: ArgumentHelp(
            """
            A group whose members may connect, by name or number: those processes that had it, as their own or as a \
            supplementary group, when they connected. A role limits what they may send: read (fetches and the feed, no \
            jobs), insert (also jobs that delete nothing) or write (everything, the default). Of several roles the highest \
            counts. May be repeated.
            """, valueName: "group[:role]"))
    var allowedGroups: [String] = []

    @Option(
        help: ArgumentHelp(
            """
            The permissions, in octal, of the store, its WAL and its lock file. Without it, a new store has 0640, less \
            the umask of the process, and an existing one keeps its permissions.
            """, valueName: "mode"))
    var storeMode: String?

    mutating func validate() throws {
        var options = ServerOptions(socketPath: nil)
        try apply(to: &options)
        _ = try storeFileMode()
    }

    func apply(to options: inout ServerOptions) throws(ValidationError) {
        options.socketAccess = try socketAccess()
        for text in allowedUsers {
            let (name, role) = try Self.role(text, of: "--allow-user")
            options.allowedUsers.raise(try Account.user(name, of: "--allow-user"), to: role)
        }
        for text in allowedGroups {
            let (name, role) = try Self.role(text, of: "--allow-group")
            options.allowedGroups.raise(try Account.group(name, of: "--allow-group"), to: role)
        }
    }

    /// No name of a user or a group has a colon.
    private static func role(_ text: String, of option: String) throws(ValidationError) -> (name: String, ClientRole) {
        guard let colon = text.lastIndex(of: ":") else { return (text, .write) }
        let word = text[text.index(after: colon)...]
        guard let role = ClientRole(rawValue: String(word)) else {
            let words = ClientRole.allCases.map(\.rawValue).joined(separator: ", ")
            throw ValidationError("\(option): there is no role \"\(word)\"; the roles are \(words).")
        }
        return (String(text[..<colon]), role)
    }

    func socketAccess() throws(ValidationError) -> SocketAccess {
        var access = SocketAccess(mode: try FileMode(socketMode, of: "--socket-mode").bits)
        access.group = try socketGroup.map { name throws(ValidationError) in
            try Account.group(name, of: "--socket-group")
        }
        return access
    }

    /// Nil when the option is not given.
    func storeFileMode() throws(ValidationError) -> UInt32? {
        try storeMode.map { text throws(ValidationError) in try FileMode(text, of: "--store-mode").bits }
    }
}

/// Permissions of a file, as chmod(1) reads them.
struct FileMode {
    let bits: UInt32

    /// - Throws: a line with the name of the option.
    init(_ text: String, of option: String) throws(ValidationError) {
        guard (1...4).contains(text.utf8.count), let bits = UInt32(text, radix: 8), !text.hasPrefix("+"), bits <= 0o777
        else {
            throw ValidationError("\(option) must be permissions in octal, 0600 to 0777, but is \(text).")
        }
        guard bits & 0o600 == 0o600 else {
            throw ValidationError(
                "\(option) \(text) denies the file to the server's own user. Give that user 6: 0660, for one.")
        }
        self.bits = bits
    }
}

extension [UInt32: ClientRole] {
    /// Raises a role; the highest of several counts.
    fileprivate mutating func raise(_ number: UInt32, to role: ClientRole) {
        self[number] = Swift.max(self[number] ?? role, role)
    }
}

/// Users and groups of this system, as named on the command line: digits are a number, anything else is a name.
///
/// They are looked up while the arguments are parsed, by the only thread that asks the C library for such.
enum Account {
    static func user(_ text: String, of option: String) throws(ValidationError) -> UInt32 {
        try find(text, kind: "user", of: option) { getpwnam($0)?.pointee.pw_uid }
    }

    static func group(_ text: String, of option: String) throws(ValidationError) -> UInt32 {
        try find(text, kind: "group", of: option) { getgrnam($0)?.pointee.gr_gid }
    }

    private static func find(
        _ text: String, kind: String, of option: String, _ search: (String) -> UInt32?
    ) throws(ValidationError) -> UInt32 {
        if !text.isEmpty, text.utf8.allSatisfy((UInt8(ascii: "0")...UInt8(ascii: "9")).contains) {
            // chown(2) and similar calls treat the highest number as "no change".
            guard let number = UInt32(text), number != .max else {
                throw ValidationError("\(option): \(text) is the number of no \(kind).")
            }
            return number
        }
        errno = 0
        if let number = search(text) { return number }
        let cause = errno
        // The manual's results for names that do not exist (getpwnam(3)).
        guard [0, ENOENT, ESRCH, EBADF, EPERM].contains(cause) else {
            throw ValidationError(
                "\(option): the \(kind) \"\(text)\" cannot be looked up (\(String(cString: strerror(cause)))). Give the "
                    + "number.")
        }
        throw ValidationError(
            "\(option): there is no \(kind) \"\(text)\" here. Give a name or a number that there is.")
    }
}
