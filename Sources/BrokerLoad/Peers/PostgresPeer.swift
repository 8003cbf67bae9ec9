internal import Foundation

/// A PostgreSQL server of its own: made, started, loaded and ended.
struct PostgresPeer {
    let folder: WorkFolder
    let layout: RecordLayout

    /// Debian keeps the server's programs out of the PATH.
    private static var folders: [String] {
        let parent = "/usr/lib/postgresql"
        let versions = (try? FileManager.default.contentsOfDirectory(atPath: parent)) ?? []
        return versions.sorted { (Double($0) ?? 0) > (Double($1) ?? 0) }.map { "\(parent)/\($0)/bin" }
    }

    private static func program(_ name: String) -> String? {
        for folder in folders where access("\(folder)/\(name)", X_OK) == 0 { return "\(folder)/\(name)" }
        return ProgramPath.find(name)
    }

    /// The missing program; nil when all are installed.
    static var missing: String? {
        for name in ["initdb", "postgres", "psql"] where program(name) == nil { return "\(name) is not installed" }
        if getuid() == 0 {
            guard user != nil else { return "there is no user `postgres` or `nobody` to run it as" }
            guard ProgramPath.find("setpriv") != nil else { return "setpriv is not installed" }
        }
        return nil
    }

    /// The user of the server when root starts it: it refuses to run as root.
    private static var user: (name: String, uid: uid_t, gid: gid_t)? {
        for name in ["postgres", "nobody"] {
            if let entry = getpwnam(name) { return (name, entry.pointee.pw_uid, entry.pointee.pw_gid) }
        }
        return nil
    }

    /// - Parameter lines: the name of the file with a record a line.
    /// - Returns: how long it took to load them.
    func load(_ lines: String) throws(LoadError) -> Double {
        let data = folder.file("postgres")
        try makeFolder(data)
        defer { do { try FileManager.default.removeItem(atPath: data) } catch {} }
        let log = folder.file("postgres.log")
        let initialized = try start(
            "initdb", ["-D", data, "-U", "brokerload", "-A", "trust", "-E", "UTF8", "--no-locale"], log: log
        ).wait()
        guard initialized == 0 else {
            let said = (ProcessUsage.text(log) ?? "").split(separator: "\n").last.map(String.init)
            throw LoadError(.failed, "initdb failed: \(said ?? "it says nothing").")
        }
        let server = try start(
            "postgres",
            [
                "-D", data, "-k", data, "-c", "listen_addresses=", "-c", "shared_buffers=256MB", "-c",
                "max_wal_size=4GB",
            ], log: log)
        defer { server.stop() }
        try server.wait(
            until: { ProcessUsage.text(log)?.contains("ready to accept connections") ?? false }, name: "postgres",
            log: log)
        let script = makeScript(lines)
        try folder.write(Array(script.make.utf8), to: "make.sql")
        try folder.write(Array(script.load.utf8), to: "load.sql")
        try psql(data, "make.sql")
        let start = monotonicNanoseconds()
        try psql(data, "load.sql")
        return Double(monotonicNanoseconds() - start) / 1e9
    }

    private func makeScript(_ lines: String) -> (make: String, load: String) {
        let tables = PeerTables(layout: layout, dialect: .postgres)
        // Neither quotes nor delimiters of CSV occur in JSON, which has no control characters: a line is a value.
        let copy = "\\copy staged (value) FROM '\(lines)' WITH (FORMAT csv, QUOTE E'\\x01', DELIMITER E'\\x02')\n"
        let load =
            "BEGIN;\nCREATE TEMP TABLE staged (value jsonb) ON COMMIT DROP;\n" + copy
            + tables.upserts(from: "staged").joined(separator: ";\n") + ";\nCOMMIT;\n"
        return (tables.create.joined(separator: ";\n") + ";\n", load)
    }

    private func psql(_ data: String, _ script: String) throws(LoadError) {
        let log = folder.file("psql.log")
        let process = try ChildProcess(
            Self.program("psql") ?? "psql",
            ["-h", data, "-U", "brokerload", "-d", "postgres", "-v", "ON_ERROR_STOP=1", "-q", "-X", "-f", script],
            in: folder.path, output: log)
        guard process.wait() == 0 else {
            let said = (ProcessUsage.text(log) ?? "").split(separator: "\n").first.map(String.init)
            throw LoadError(.failed, "psql failed: \(said ?? "it says nothing").")
        }
    }

    private func makeFolder(_ path: String) throws(LoadError) {
        guard mkdir(path, 0o700) == 0 else {
            throw LoadError(.failed, "\(path) cannot be made: \(String(cString: strerror(errno))).")
        }
        if getuid() == 0, let user = Self.user { chown(path, user.uid, user.gid) }
    }

    private func start(_ name: String, _ arguments: [String], log: String) throws(LoadError) -> ChildProcess {
        let program = Self.program(name) ?? name
        guard getuid() == 0, let user = Self.user, let setpriv = ProgramPath.find("setpriv") else {
            return try ChildProcess(program, arguments, in: folder.path, output: log)
        }
        let identity = ["--reuid=\(user.uid)", "--regid=\(user.gid)", "--clear-groups"]
        return try ChildProcess(setpriv, identity + [program] + arguments, in: folder.path, output: log)
    }
}
