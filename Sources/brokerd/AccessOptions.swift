import ArgumentParser
import BrokerServer

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
            "A user who may connect, by name or number, beside the server's own and root. May be repeated.",
            valueName: "user"))
    var allowedUsers: [String] = []

    @Option(
        name: .customLong("allow-group"),
        help: ArgumentHelp(
            """
            A group whose members may connect, by name or number: those processes that had it, as their own or as a \
            supplementary group, when they connected. May be repeated.
            """, valueName: "group"))
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
        for user in allowedUsers { options.allowedUsers.insert(try Account.user(user, of: "--allow-user")) }
        for group in allowedGroups { options.allowedGroups.insert(try Account.group(group, of: "--allow-group")) }
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
