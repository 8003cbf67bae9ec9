internal import BrokerSQLite
internal import CSQLite
internal import Glibc

/// The machine and the system of a run, as far as the system reports them.
package struct RunEnvironment: Sendable {
    /// Names and values, in the order of the report.
    package private(set) var facts: [(name: String, value: String)] = []

    /// - Parameters:
    ///   - server: what the server calls itself; nil where none was asked.
    ///   - process: the server's, whose arguments name the store.
    package init(server: String?, process: Int32?) {
        add("server", server)
        let arguments = process.flatMap(Self.arguments) ?? []
        if !arguments.isEmpty { add("command", arguments.joined(separator: " ")) }
        add("sqlite", String(cString: sqlite3_libversion()))
        if let store = Self.storePath(arguments, process) { describe(store, arguments) }
        add("machine", Self.processor)
        add("kernel", ProcessUsage.text("/proc/sys/kernel/osrelease").map(Self.trimmed))
        add("memory", Self.memory)
    }

    package mutating func add(_ name: String, _ value: String?) {
        if let value, !value.isEmpty { facts.append((name, value)) }
    }

    // MARK: - The store

    private mutating func describe(_ store: String, _ arguments: [String]) {
        add("file system", Self.fileSystem(of: store))
        guard let connection = try? Connection(path: store, .read) else { return }
        let pragmas = ["journal_mode", "page_size", "auto_vacuum"].compactMap { name in
            (try? connection.text("PRAGMA \(name)")).map { "\(name) = \($0)" }
        }
        // A setting of the connection: as given to the server, or its default.
        let usual = arguments.contains("--journal") ? "normal" : "full"
        let synchronous = "synchronous = \(Self.option("--synchronous", arguments) ?? usual)"
        add("pragmas", (pragmas + [synchronous]).joined(separator: ", "))
    }

    private static func arguments(of process: Int32) -> [String]? {
        ProcessUsage.text("/proc/\(process)/cmdline")?.split(separator: "\0").map(String.init)
    }

    /// The value of `--name value` or `--name=value`.
    private static func option(_ name: String, _ arguments: [String]) -> String? {
        for (place, argument) in arguments.enumerated() {
            if argument == name, place + 1 < arguments.count { return arguments[place + 1] }
            if argument.hasPrefix(name + "=") { return String(argument.dropFirst(name.count + 1)) }
        }
        return nil
    }

    /// As seen from here: a relative path is the server's.
    private static func storePath(_ arguments: [String], _ process: Int32?) -> String? {
        guard let store = option("--store", arguments), let process else { return nil }
        return store.hasPrefix("/") ? store : "/proc/\(process)/cwd/\(store)"
    }

    /// The type of the file system that a file is on (proc(5), mountinfo).
    private static func fileSystem(of path: String) -> String? {
        guard let resolved = realpath(path, nil) else { return nil }
        defer { free(resolved) }
        let place = String(cString: resolved)
        var best: (count: Int, type: String)?
        for line in ProcessUsage.text("/proc/self/mountinfo")?.split(separator: "\n") ?? [] {
            let fields = line.split(separator: " ")
            guard fields.count > 4, let dash = fields.firstIndex(of: "-"), dash + 1 < fields.count else { continue }
            let mount = String(fields[4])
            let isAbove = mount == "/" || place == mount || place.hasPrefix(mount + "/")
            guard isAbove, mount.utf8.count >= best?.count ?? 0 else { continue }
            best = (mount.utf8.count, String(fields[dash + 1]))
        }
        return best?.type
    }

    // MARK: - The machine

    private static var processor: String? {
        let lines = ProcessUsage.text("/proc/cpuinfo")?.split(separator: "\n") ?? []
        let model = lines.first { $0.hasPrefix("model name") }?.split(separator: ":").last.map { trimmed(String($0)) }
        return "\(sysconf(Int32(_SC_NPROCESSORS_ONLN))) × \(model ?? "processor")"
    }

    private static var memory: String? {
        let bytes = sysconf(Int32(_SC_PHYS_PAGES)) * sysconf(Int32(_SC_PAGESIZE))
        return "\(bytes >> 30) GiB"
    }

    private static func trimmed(_ text: String) -> String {
        String(text.drop { $0.isWhitespace }.reversed().drop { $0.isWhitespace }.reversed())
    }
}
