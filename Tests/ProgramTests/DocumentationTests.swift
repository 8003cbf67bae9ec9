import TestSupport
import Foundation
import Testing

/// The articles of the libraries and the README show only code that is compiled and run, and their tables are complete.
@Suite(.timeLimit(.minutes(5))) struct DocumentationTests {
    private static let pages = ["README.md"] + files(of: ["Broker", "BrokerClient", "BrokerEmbedded"], suffix: ".md")
    private static let sources = files(of: ["Broker", "BrokerClient", "BrokerEmbedded"], suffix: ".swift")
    /// Their code is run: by the tests here, and by `scripts/examples`.
    private static let folders = ["Tests/ProgramTests/Snippets", "Tests/Examples"]

    private static func files(of targets: [String], suffix: String) -> [String] {
        targets.flatMap { (try? Repository.files(in: "Sources/\($0)", suffix: suffix)) ?? [] }
    }

    @Test func `there are articles and comments with code`() throws {
        #expect(Self.pages.count > 8, "\(Self.pages)")
        #expect(try Self.sources.filter { try !Repository.codeBlocks(of: $0).isEmpty }.count > 6)
    }

    @Test(arguments: pages + sources)
    func `each piece of Swift code is a part of a program that is run`(page: String) throws {
        let programs = try Self.folders.flatMap { try Repository.files(in: $0, suffix: ".swift") }
            .map { try Repository.text(of: $0).components(separatedBy: "\n") }
        for block in try Repository.codeBlocks(of: page) where block.language == "swift" {
            let lines = block.text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init).dropLast()
            guard !lines.allSatisfy({ $0.hasPrefix(".package(") || $0.hasPrefix(".product(") || $0.isEmpty }) else {
                try checkManifest(Array(lines))
                continue
            }
            #expect(
                programs.contains { has(Array(lines), in: $0) },
                "\(page) has code that is in no program:\n\(block.text)")
        }
    }

    /// Whether a program has the lines, one after the other and indented as a whole. Imports may be anywhere.
    private func has(_ block: [String], in program: [String]) -> Bool {
        let imports = block.filter { $0.hasPrefix("import ") }
        guard imports.allSatisfy(program.contains) else { return false }
        let lines = Array(block.filter { !$0.hasPrefix("import ") }.drop(while: \.isEmpty))
        guard let first = lines.first else { return true }
        return program.indices.contains { start in
            guard program[start].hasSuffix(first), start + lines.count <= program.count else { return false }
            let indentation = program[start].dropLast(first.count)
            return indentation.allSatisfy { $0 == " " }
                && zip(lines, program[start...]).allSatisfy { $0.isEmpty ? $1.isEmpty : $1 == indentation + $0 }
        }
    }

    /// The lines of a manifest name products and traits that the package has.
    private func checkManifest(_ lines: [String]) throws {
        let manifest = try Repository.text(of: "Package.swift")
        for line in lines {
            if let product = line.firstMatch(of: /\.product\(name: "(\w+)"/) {
                #expect(manifest.contains("\"\(product.1)\""))
            }
            for trait in line.components(separatedBy: "traits:").dropFirst().joined().matches(of: /"(\w+)"/) {
                #expect(manifest.contains("name: \"\(trait.1)\""))
            }
        }
    }

    @Test func `the article about errors has each code once, and no other`() throws {
        let source = try Repository.text(of: "Sources/Broker/BrokerError.swift")
        let codes = source.matches(of: /public static let \S+ = Self\(rawValue: "(\w+)"\)/).map { String($0.1) }
        #expect(codes.count > 40)
        let page = try Repository.text(of: "Sources/Broker/Broker.docc/Errors.md")
        let named = page.components(separatedBy: "\n").filter { $0.hasPrefix("| `") }
            .flatMap { $0.split(separator: "|")[0].matches(of: /`(\w+)`/).map { String($0.1) } }
        #expect(named.sorted() == codes.sorted())
    }

    @Test func `the article about observing has each metric, and no other`() throws {
        let files = try ["Sources/BrokerClient", "Sources/Broker"].flatMap {
            try Repository.files(in: $0, suffix: ".swift")
        }
        let metrics = try files.flatMap { file in
            // What both libraries have is named after a prefix.
            try Repository.text(of: file).matches(of: /"(broker_client|broker_embedded|\\\(prefix\))_(\w+)"/).flatMap {
                match in
                let prefixes = match.1.hasPrefix("b") ? [String(match.1)] : ["broker_client", "broker_embedded"]
                return prefixes.map { "\($0)_\(match.2)" }
            }
        }
        let page = try Repository.text(of: "Sources/BrokerClient/BrokerClient.docc/Observing.md")
        let named = page.matches(of: /`(broker_\w+)` \|/).map { String($0.1) }
        #expect(named.sorted() == Set(metrics).sorted())
    }
}

/// The README says nothing that is not run.
@Suite(.timeLimit(.minutes(5))) struct ReadmeTests {
    private let blocks: [(language: String, text: String)]

    init() throws { blocks = try Repository.codeBlocks(of: "README.md") }

    @Test func `the commands in the README print what it shows`() throws {
        let programs = try Programs()
        let commands = try #require(blocks.firstIndex { $0.language == "sh" && $0.text.contains("broker submit") })
        let folder = programs.executable("broker").deletingLastPathComponent().path
        let result = try programs.shell("PATH='\(folder)':$PATH\n\(blocks[commands].text)")
        #expect(result.status == 0, "\(result.complaints)")
        #expect(result.output == blocks[commands + 1].text)
    }
}

/// The commands of the handbook in `protocol/running.md` work as they are written there, one after the other.
@Suite(.timeLimit(.minutes(5))) struct HandbookTests {
    /// The lines of the handbook's shell blocks.
    private static func commands() throws -> [String] {
        let page = try Repository.text(of: "protocol/running.md")
        let handbook = try #require(page.components(separatedBy: "\n## Handbook\n").last)
        let blocks = handbook.components(separatedBy: "```sh\n").dropFirst()
        return blocks.flatMap { block in
            (block.components(separatedBy: "\n```").first ?? "").components(separatedBy: "\n")
        }
    }

    /// A shell function in the place of the service manager, which starts and ends the server of the test, and a program in the
    /// place of Litestream.
    private static let manager = """
        set -eu
        start() {
            mkdir -p run
            brokerd --model model.json --store store.sqlite --socket run/broker.sock > ready 2> log & echo $! > pid
            until [ -s ready ]; do kill -0 "$(cat pid)"; sleep 0.02; done
        }
        stop() { kill "$(cat pid)"; wait "$(cat pid)" || true; rm ready; }
        systemctl() { case $1 in start | stop) "$1" ;; esac; }
        mkdir bin
        cat > bin/litestream << 'END'
        #!/bin/sh
        case $1 in
            ltx) printf '%s\n' 'all 2020-01-01T00:00:00Z' 'all 2099-01-01T00:00:00Z' ;;
            restore) cp backups/store-2*Z.sqlite "$5" ;;
        esac
        END
        chmod +x bin/litestream
        trap 'kill "$(cat pid)"' EXIT
        start
        mkdir backups
        echo '[{"id": 1, "name": "a"}, {"id": 2}]' | broker submit Employee --on-invalid skip > submitted || [ $? = 3 ]
        # A retry of the other record finds its object.
        echo '[{"id": 2, "name": "b"}]' | broker submit Employee > submitted
        """

    @Test func `each command of the handbook works`() throws {
        let programs = try Programs()
        let required = Programs.model.replacing(
            #""name": "string""#, with: #""name": {"type": "string", "optional": false}"#)
        try programs.write(required, to: "model.json")
        let commands = try Self.commands()
        #expect(commands.count > 8, "the handbook has lost its commands: \(commands)")
        // The time in the example's name is that of no backup; there is one.
        let places = [
            ("/var/lib/broker/backups/store-20261125T020000Z.sqlite", "backups/store-2*Z.sqlite"),
            ("/var/lib/broker", "."), ("/etc/broker", "."), ("/run/broker", "run"), ("41002", "1000"),
        ]
        var script = Self.manager + "\n"
        for command in commands {
            var line = command
            for (written, here) in places { line = line.replacingOccurrences(of: written, with: here) }
            script += "echo '== \(command.replacingOccurrences(of: "'", with: ""))'\n\(line)\n"
        }
        let built = programs.executable("broker").deletingLastPathComponent().path
        let result = try programs.shell(
            "PATH=\"\(built):$PWD/bin:$PATH\"; export BROKER_SOCKET=run/broker.sock\n" + script)
        #expect(result.status == 0, "\(result.output.suffix(500))\n\(result.complaints.suffix(1_000))")
        #expect(result.output.contains("would be forgotten: 0 jobs"), "\(result.output)")
    }
}

/// What `protocol/core-data.md` says of the models of other libraries holds for the examples in `CoreDataImports.md`.
@Suite(.timeLimit(.minutes(5))) struct CoreDataImportTests {
    private struct Block {
        /// The words after the backticks.
        let words: [String]
        let text: String
    }

    /// The blocks of each chapter, by its heading.
    private static func chapters() throws -> [(name: String, blocks: [Block])] {
        let page = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("CoreDataImports.md")
        var chapters: [(name: String, blocks: [Block])] = []
        var open: (words: [String], lines: [String])?
        for line in try String(contentsOf: page, encoding: .utf8).components(separatedBy: "\n") {
            if let block = open {
                if line == "```" {
                    chapters[chapters.count - 1].blocks.append(
                        Block(words: block.words, text: block.lines.joined(separator: "\n")))
                    open = nil
                } else {
                    open?.lines.append(line)
                }
            } else if line.hasPrefix("```") {
                open = (line.dropFirst(3).split(separator: " ").map(String.init), [])
            } else if line.hasPrefix("## ") {
                chapters.append((String(line.dropFirst(3)), []))
            }
        }
        return chapters
    }

    @Test func `every example of an import leaves the rows that it shows`() throws {
        let chapters = try Self.chapters()
        #expect(chapters.map(\.name) == ["MagicalRecord", "Groot", "Sync (hyper)", "RestKit"])
        for (name, blocks) in chapters {
            var programs = try Programs()
            var models: [String] = []
            var queries = 0
            for block in blocks {
                switch block.words.first {
                case "xml":
                    // Another model is another app.
                    if !models.isEmpty { programs = try Programs() }
                    models = ["--model", "App.xcdatamodel"]
                    try FileManager.default.createDirectory(
                        atPath: programs.path("App.xcdatamodel"), withIntermediateDirectories: true)
                    try programs.write("<model>\n\(block.text)\n</model>", to: "App.xcdatamodel/contents")
                case "json" where block.words.count > 1 && block.words[1].hasSuffix(".json"):
                    try programs.write(block.text, to: block.words[1])
                    models += ["--model", block.words[1]]
                case "json":
                    let reading =
                        switch block.words.dropFirst().first {
                        case nil: [] as [String]
                        case "--path": ["--path", block.words[2]]
                        case let entity?: ["--entity", entity]
                        }
                    let result = try programs.run(
                        "broker", ["submit", "--store", "app.sqlite"] + models + reading, input: block.text)
                    #expect(result.status == 0, "\(name): \(result.complaints)")
                case "sql":
                    queries += 1
                    let lines = block.text.split(separator: "\n").map(String.init)
                    let expected = lines.filter { $0.hasPrefix("-- ") }.map { String($0.dropFirst(3)) }
                    let query = lines.filter { !$0.hasPrefix("-- ") }.joined(separator: "\n")
                    #expect(try Database(programs.path("app.sqlite")).rows(query) == expected, "\(name)")
                default: Issue.record("\(name): a block of \(block.words)")
                }
            }
            #expect(queries > 0, "\(name) shows nothing")
        }
    }
}

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

/// The commands of `protocol/guides/continuous-backup.md` do what the page says, with Litestream itself, between three folders that
/// are three machines.
@Suite(.timeLimit(.minutes(5))) struct ContinuousBackupGuideTests {
    private static let litestream = Repository.path(of: ".build/litestream/bin")
    private static let isInstalled = FileManager.default.isExecutableFile(atPath: litestream + "/litestream")

    private static let jobs = 600
    /// The jobs before the second machine follows, and before the load of whose middle the first one dies.
    private static let (early, middle) = (100, 200)
    private static let batch = 250

    /// Shell functions; `MACHINE` is the folder of a machine.
    private static let functions = """
        set -eu
        deadline=$(( $(date +%s) + \(Patience.seconds) ))
        until_so() {
            until "$@"; do
                [ "$(date +%s)" -lt "$deadline" ] || { echo "in vain: $*" >&2; cat */server.log */*.log >&2; exit 1; }
                sleep 0.05
            done
        }
        start() {
            brokerd --config "$MACHINE/brokerd.json" "$@" > "$MACHINE/ready" 2>> "$MACHINE/server.log" & server=$!
            until_so test -s "$MACHINE/ready"
        }
        follow() {
            litestream restore -f -o second/warm.sqlite "file://$PWD/backup/store" > second/follow.log 2>&1 & follower=$!
        }
        systemctl() {
            case $* in
                'start brokerd') start ;;
                'stop litestream-follow') kill "$follower"; wait "$follower" ;;
                *) exit 1 ;;
            esac
        }
        records() {
            python3 -c "
        import os, time
        for n in range(\(jobs * batch)):
            while n == \(early * batch + 1) and not os.path.exists('follows') or n == \(middle * batch + 1) and not os.path.exists('dies'):
                time.sleep(0.02)
            print('[' if n == 0 else ',', '{\\"number\\": %d}' % n, flush=n % 50 == 0)
        print(']')"
        }
        load() {
            records | broker submit --socket "$MACHINE/socket" --entity Event --id load --batch-records \(batch) "$@"
        }
        value() { sqlite3 -readonly -cmd '.timeout 5000' "$1" "$2"; }
        has_jobs() { [ "$(value "$1" 'SELECT count(*) FROM _broker_jobs')" -ge "$2" ]; }
        warm_is_whole() {
            test $(( $(\(part("read"))) % \(batch) )) = 0 || { echo "part of a job" >&2; exit 1; }
        }
        warm_has_jobs() { warm_is_whole; has_jobs second/warm.sqlite "$1"; }
        names_reader() { broker stats --socket first/socket | grep -q litestream; }
        server= backup= follower=
        trap 'kill -9 $server $backup $follower 2> /dev/null || true' EXIT

        """

    @Test func `the configuration of the package is the page's`() throws {
        let blocks = try Repository.codeBlocks(of: "protocol/guides/continuous-backup.md")
        let shown = try #require(blocks.first { $0.language == "yaml litestream.yml" })
        #expect(try Repository.text(of: "scripts/systemd/litestream.yml") == shown.text)
    }

    /// A command of the page for the machines of this test.
    private static func part(_ name: String, on machine: String = "second") -> String {
        let blocks = try? Repository.codeBlocks(of: "protocol/guides/continuous-backup.md")
        var text = blocks?.first {
            $0.language == name || $0.language == "sh " + name || $0.language == "yaml " + name
        }?.text
        for (written, here) in [
            ("file:///mnt", "file://$PWD"), ("/mnt", "$PWD"), ("/var/lib/broker", "$PWD/" + machine),
            ("/etc/broker", machine),
        ] { text = text?.replacingOccurrences(of: written, with: here) }
        return text ?? "echo 'the page has no \(name)' >&2; exit 1"
    }

    private static func machine(_ name: String) -> String {
        """
        mkdir -p \(name)
        cat > \(name)/brokerd.json << END
        {"model": ["model.json"], "store": "\(name)/store.sqlite", "socket": "\(name)/socket"}
        END
        cat > \(name)/litestream.yml << END
        \(part("litestream.yml", on: name))END

        """
    }

    /// The load, and the death of both programs while it runs.
    private static let death = """
        MACHINE=first
        start --journal
        litestream replicate -config first/litestream.yml > first/litestream.log 2>&1 & backup=$!
        load --reconnect-timeout 0 > load.log 2>&1 & client=$!
        until_so has_jobs first/store.sqlite \(early - 1)
        until_so test -d backup/store/ltx/0
        follow
        until_so test -f second/warm.sqlite-txid
        touch follows
        until_so warm_has_jobs \(middle - 1)
        until_so names_reader
        touch dies
        until_so has_jobs first/store.sqlite \(middle + 50)
        kill -9 "$server" "$backup"
        wait "$client" || true
        \(part("list", on: "first"))
        """

    /// Compares a copy with the store of the dead machine: all that it has is there, and no job is missing before its last.
    private static func compare(_ copy: String) -> String {
        """
        last=$(value \(copy) 'SELECT count(*) FROM _broker_jobs')
        test "$last" -gt 0
        test "$(value \(copy) 'SELECT max(sequence) FROM _broker_jobs')" = "$last"
        test "$(value \(copy) 'SELECT count(*) FROM Event')" = $(( last * \(batch) ))
        for table in Event _broker_jobs _broker_feed; do
            test "$(value \(copy) "ATTACH 'file:first/store.sqlite?mode=ro' AS first;
                SELECT count(*) FROM (SELECT rowid, * FROM main.$table EXCEPT SELECT rowid, * FROM first.$table)")" = 0
        done
        echo "\(copy): $last of $(value first/store.sqlite 'SELECT count(*) FROM _broker_jobs') jobs"

        """
    }

    /// The client sends all jobs again.
    private static let again = """
        load > again.log 2>&1 || { cat again.log >&2; exit 1; }
        test "$(value "$MACHINE/store.sqlite" 'SELECT count(*), count(DISTINCT number) FROM Event')" = '\(jobs * batch)|\(jobs * batch)'
        test "$(value "$MACHINE/store.sqlite" 'SELECT count(*) FROM _broker_jobs')" = \(jobs)
        kill "$server"; wait "$server"

        """

    @Test(.enabled(if: isInstalled, "Litestream is not installed; scripts/test --all installs it"))
    func
        `a copy has whole jobs in order after both were killed, serves after each way of the page, and applies jobs once`()
        throws
    {
        let programs = try Programs()
        try programs.write(#"{"entities": {"Event": {"attributes": {"number": "integer64"}}}}"#, to: "model.json")
        let built = programs.executable("broker").deletingLastPathComponent().path
        let finished = Self.part("finished").trimmingCharacters(in: .newlines)
        let script =
            "PATH=\"\(built):\(Self.litestream):$PATH\"\n" + Self.functions
            + ["first", "second", "third", "fourth"].map(Self.machine).joined() + Self.death
            + "\nis_finished() { \(finished); }\nuntil_so is_finished\n"
            + "MACHINE=third\n" + Self.part("restore", on: "third") + Self.compare("third/store.sqlite") + Self.again
            // A copy goes on with a journal, too.
            + "MACHINE=fourth\n"
            + Self.part("restore", on: "fourth")
            .replacingOccurrences(of: "systemctl start brokerd", with: "start --journal") + Self.again
            + "MACHINE=second\nwarm_is_whole\n" + Self.part("take over") + Self.compare("second/store.sqlite")
            + Self.again
            + "echo done\n"
        let result = try programs.shell(script)
        #expect(result.status == 0, "\(result.output.suffix(1_000))\n\(result.complaints.suffix(3_000))")
        #expect(result.output.hasSuffix("done\n"))
        #expect(result.output.contains("A start would succeed."), "\(result.output)")
    }
}

/// Installs and packages scripts in the place of Broker's programs, into folders of the test.
@Suite(.timeLimit(.minutes(5))) struct PackagingTests {
    private let programs: Programs

    init() throws {
        programs = try Programs()
        try FileManager.default.createDirectory(atPath: programs.path("bin"), withIntermediateDirectories: true)
        for name in ["broker", "brokerd", "brokerload"] {
            let help =
                #"{"command": {"commandName": "\#(name)", "abstract": "It.", "discussion": "", "arguments": []}}"#
            try programs.write(
                """
                #!/bin/sh
                case $1 in
                --version) echo 0.1.0-dev ;;
                --experimental-dump-help) echo '\(help)' ;;
                *) echo "# $*" ;;
                esac
                """, to: "bin/\(name)")
            chmod(programs.path("bin/\(name)"), 0o755)
        }
    }

    private func files(_ folder: String) throws -> [String] {
        try FileManager.default.subpathsOfDirectory(atPath: programs.path(folder)).sorted()
    }

    private func run(_ script: String, _ arguments: String..., line: Int = #line) throws -> Programs.Result {
        let result = try programs.runScript(script, arguments)
        #expect(result.status == 0, "line \(line): \(result.complaints)")
        return result
    }

    @Test func `what is installed is removed whole, with what an earlier version had, and nothing else`() throws {
        let root = programs.path("root")
        try FileManager.default.createDirectory(atPath: root + "/opt/x/bin", withIntermediateDirectories: true)
        try programs.write("mine", to: "root/opt/x/bin/mine")
        let options = ["--prefix", "/opt/x", "--destdir", root]
        _ = try run("install", options[0], options[1], options[2], options[3], "--programs", programs.path("bin"))
        let installed = try files("root/opt/x")
        for file in [
            "bin/broker", "share/man/man1/brokerd.1.gz", "share/bash-completion/completions/broker",
            "share/doc/broker/LICENSE", "lib/systemd/system/brokerd.service",
        ] {
            #expect(installed.contains(file), "\(file)")
        }
        let unit = try String(contentsOfFile: root + "/opt/x/lib/systemd/system/brokerd.service", encoding: .utf8)
        #expect(unit.contains("ExecStart=/opt/x/bin/brokerd ") && !unit.contains("/usr/bin/"))
        for name in installed where name.hasPrefix("lib/systemd/system/") {
            // `systemctl help brokerd` opens the page that a unit names.
            let unit = try String(contentsOfFile: root + "/opt/x/" + name, encoding: .utf8)
            guard !name.contains("litestream") else { continue }
            let page = try #require(unit.firstMatch(of: /Documentation=man:(\w+)\((\d)\)\n/), "\(name)").output
            #expect(installed.contains("share/man/man\(page.2)/\(page.1).\(page.2).gz"), "\(name)")
        }
        // A file of an earlier version.
        let list = root + "/opt/x/share/broker/files"
        try (String(contentsOfFile: list, encoding: .utf8) + "bin/old\n").write(
            toFile: list, atomically: true, encoding: .utf8)
        try programs.write("old", to: "root/opt/x/bin/old")
        _ = try run("install", options[0], options[1], options[2], options[3], "--programs", programs.path("bin"))
        #expect(try files("root/opt/x") == installed)
        _ = try run("install", "--uninstall", options[0], options[1], options[2], options[3])
        #expect(try files("root/opt/x") == ["bin", "bin/mine"])
    }

    private static let canPackage =
        geteuid() == 0 && ["dpkg", "dpkg-deb", "dpkg-shlibdeps"].allSatisfy { access("/usr/bin/\($0)", X_OK) == 0 }

    @Test(.enabled(if: canPackage, "It needs root, dpkg and dpkg-dev."))
    func `a package is installed, upgraded, removed and purged, and the stores stay until it is asked`() throws {
        var packages: [String] = []
        for revision in ["1", "2"] {
            let made = try run(
                "package", "--programs", programs.path("bin"), "--output", programs.folder, "--revision", revision)
            packages.append(made.output.trimmingCharacters(in: .newlines))
        }
        #expect(packages[0].hasPrefix(programs.path("broker_0.1.0~dev-1_")))
        _ = try programs.shell(
            "mkdir -p root/etc root/var/lib/dpkg/info root/var/lib/dpkg/updates && : > root/var/lib/dpkg/status")
        // The scripts run outside of the root, where there is a shell, and act on it.
        func dpkg(_ arguments: String, _ variable: String = "", line: Int = #line) throws -> Programs.Result {
            let result = try programs.shell(
                "\(variable) dpkg --root='\(programs.path("root"))' --force-script-chrootless --force-depends \(arguments)"
            )
            #expect(result.status == 0, "line \(line): \(result.complaints)")
            return result
        }
        _ = try dpkg("-i '\(packages[0])'")
        #expect(try files("root/usr/bin") == ["broker", "brokerd", "brokerload"])
        _ = try programs.shell("mkdir -p root/var/lib/broker && echo data > root/var/lib/broker/store.sqlite")
        _ = try dpkg("-i '\(packages[1])'")
        #expect(try dpkg("--status broker").output.contains("Version: 0.1.0~dev-2\n"))
        _ = try dpkg("--remove broker")
        #expect(!FileManager.default.fileExists(atPath: programs.path("root/usr")))
        #expect(try dpkg("--purge broker").output.contains("The stores in /var/lib/broker"))
        #expect(try files("root/var/lib/broker") == ["store.sqlite"])
        _ = try dpkg("-i '\(packages[1])'")
        _ = try dpkg("--purge broker", "BROKER_PURGE_STORES=yes")
        #expect(!FileManager.default.fileExists(atPath: programs.path("root/var/lib/broker")))
    }
}

/// The files of the repository that the tests belong to.
enum Repository {
    private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    static func path(of path: String) -> String { root.appendingPathComponent(path).path }

    static func text(of path: String) throws -> String {
        try String(contentsOf: root.appendingPathComponent(path), encoding: .utf8)
    }

    /// The paths of the files in a folder, at any depth, whose names end so.
    static func files(in folder: String, suffix: String) throws -> [String] {
        let names = try FileManager.default.subpathsOfDirectory(atPath: root.appendingPathComponent(folder).path)
        return names.filter { $0.hasSuffix(suffix) }.map { "\(folder)/\($0)" }.sorted()
    }

    /// The lines of a page, or those of a Swift file that are comments of declarations, without their marks.
    private static func lines(of path: String) throws -> [String] {
        let lines = try text(of: path).components(separatedBy: "\n")
        guard path.hasSuffix(".swift") else { return lines }
        return lines.compactMap { $0.firstMatch(of: /^ *\/\/\/ ?(.*)$/).map { String($0.1) } }
    }

    /// The fenced code blocks of a Markdown page, or of a Swift file's comments, each with its line breaks.
    static func codeBlocks(of path: String) throws -> [(language: String, text: String)] {
        var blocks: [(language: String, text: String)] = []
        var isOpen = false
        for line in try lines(of: path) {
            if line.hasPrefix("```") {
                isOpen.toggle()
                if isOpen { blocks.append((String(line.dropFirst(3)), "")) }
            } else if isOpen {
                blocks[blocks.count - 1].text += line + "\n"
            }
        }
        return blocks
    }
}
