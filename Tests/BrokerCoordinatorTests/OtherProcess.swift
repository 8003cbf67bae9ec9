import Foundation

/// Another process that reads the store as the connection `reader` of a Python script does. It ends with this object.
final class OtherProcess {
    private let process = Process()
    private let output = Pipe()

    /// - Parameters:
    ///   - name: of its program, as the kernel reports it.
    ///   - script: runs when the read transaction is open.
    init(named name: String, store: String, then script: String) throws {
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        let begin = """
            import sqlite3, sys, time
            open("/proc/self/comm", "w").write(sys.argv[2])
            def connection():
                return sqlite3.connect(sys.argv[1], isolation_level=None, timeout=0)
            def read():
                reader.execute("BEGIN")
                reader.execute("SELECT count(*) FROM Row").fetchall()
            reader = connection()
            read()
            print("reads", flush=True)

            """
        process.arguments = ["python3", "-c", begin + script, store, name]
        process.standardInput = Pipe()
        process.standardOutput = output
        try process.run()
        // Its line, or nothing if it could not read.
        _ = output.fileHandleForReading.availableData
    }

    deinit {
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }

    var pid: Int32 { process.processIdentifier }
}
