import Foundation
import Testing

/// The examples of `protocol/guides/reading.md` print what the page shows.
@Suite(.timeLimit(.minutes(5))) struct ReadingGuideTests {
    private struct Example {
        /// The words after the backticks: the language, and the tool that it needs.
        let words: [String]
        let code: String
        /// The text block after it.
        var output = ""
    }

    private static let examples: [Example] = {
        let page = URL(filePath: #filePath).appending(path: "../../../protocol/guides/reading.md").standardizedFileURL
        guard let text = try? String(contentsOf: page, encoding: .utf8) else { return [] }
        var examples: [Example] = []
        for match in text.matches(of: #/(?ms)^```(\w[\w ]*)\n(.*?)^```$/#) {
            if match.1 == "text" {
                examples[examples.count - 1].output = String(match.2)
            } else {
                examples.append(Example(words: match.1.split(separator: " ").map(String.init), code: String(match.2)))
            }
        }
        return examples
    }()

    /// The tools of the page that this machine has.
    private static let tools: Set<String> = {
        let probe = """
            import importlib.util, shutil
            print(*[name for name in ("pandas", "duckdb") if importlib.util.find_spec(name)],
                *[name for name in ("datasette", "sqlite3") if shutil.which(name)])
            """
        let found = try? Programs().run(python: probe)
        return Set((found?.output ?? "").split(whereSeparator: \.isWhitespace).map(String.init))
    }()

    private let programs: Programs

    /// The store of the examples.
    init() throws {
        programs = try Programs()
        let first = try #require(Self.examples.first)
        let built = programs.executable("broker").deletingLastPathComponent().path
        let made = try programs.shell("PATH=\"\(built):$PATH\"; \(first.code)")
        try #require(made.status == 0, "\(made)")
    }

    private func check(_ tool: String?) throws {
        let examples = Self.examples.dropFirst().filter { $0.words.dropFirst().first == tool }
        #expect(!examples.isEmpty)
        for example in examples {
            let result =
                switch example.words[0] {
                case "python": try programs.run(python: example.code)
                case "sql": try programs.run(python: Self.duckDB(example.code))
                default: try programs.shell(example.code)
                }
            #expect(result.status == 0, "\(result.complaints)")
            #expect(result.output == example.output, "\(result.complaints)")
        }
    }

    /// A script that runs the statements, and prints the rows of each.
    private static func duckDB(_ statements: String) -> String {
        """
        import duckdb
        store = duckdb.connect()
        for statement in \"""\(statements)\""".strip().split(";\\n"):
            found = store.execute(statement)
            for row in found.fetchall() if statement.startswith("SELECT") else []:
                print(*row)
        """
    }

    @Test(.enabled(if: Self.tools.contains("sqlite3"), "sqlite3 is not installed"))
    func `the examples of sqlite3 and Python print what the page shows`() throws { try check(nil) }

    @Test(.enabled(if: Self.tools.contains("pandas"), "pandas is not installed"))
    func `the example of pandas prints what the page shows`() throws { try check("pandas") }

    @Test(.enabled(if: Self.hasDuckDB, "duckdb, or its extension sqlite, is not installed"))
    func `the example of DuckDB prints what the page shows`() throws { try check("duckdb") }

    private static let hasDuckDB: Bool = {
        guard tools.contains("duckdb") else { return false }
        return (try? Programs().run(python: "import duckdb; duckdb.connect().execute('LOAD sqlite')"))?.status == 0
    }()

    @Test(.enabled(if: Self.tools.contains("datasette"), "datasette is not installed"))
    func `the example of Datasette prints what the page shows`() throws { try check("datasette") }

    /// As root, another user's program; else the folder's mode suffices.
    @Test(.enabled(if: Self.tools.contains("sqlite3"), "sqlite3 is not installed"))
    func `a stopped store, as immutable, and a backup open where nothing may be written`() throws {
        let server = try programs.startServer()
        let submitted = try programs.run(
            "broker", ["submit", "--socket", "broker.sock", "--entity", "Employee"], input: #"{"id": 7, "name": "Cy"}"#)
        #expect(submitted.status == 0, "\(submitted.complaints)")
        let copied = try programs.run("broker", ["backup", "--socket", "broker.sock", "copy.sqlite"])
        #expect(copied.status == 0, "\(copied.complaints)")
        server.terminate()
        server.waitUntilExit()
        let read = try programs.shell(
            """
            # Another user can reach this folder, whatever folder the tests have.
            folder=$(mktemp -d /tmp/broker-reading-XXXXXX)
            trap 'chmod 755 "$folder"; rm -rf "$folder"' EXIT
            mv store.sqlite copy.sqlite "$folder"; cd "$folder"
            chmod 444 store.sqlite copy.sqlite; chmod 555 .
            if [ "$(id -u)" = 0 ]; then as="setpriv --reuid 65534 --regid 65534 --clear-groups"; fi
            for file in 'file:store.sqlite?immutable=1' copy.sqlite; do
                $as sqlite3 -readonly "$file" "SELECT name FROM Employee"; $as sqlite3 "$file" "SELECT id FROM Employee_readable"
            done
            ls *-wal *-shm *-journal 2> /dev/null; true
            """)
        #expect(read.output == "Cy\n7\nCy\n7\n", "\(read)")
    }
}

extension Programs {
    /// Runs a script of Python to its end.
    func run(python script: String) throws -> Result {
        try write(script, to: "script.py")
        return try shell("python3 script.py")
    }
}
