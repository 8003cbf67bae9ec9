import Broker
import BrokerConsole
import BrokerCoordinator
import BrokerJSON
import BrokerStore
import Foundation
import Logging
import TestSupport
import Testing

@testable import BrokerCommand
@testable import BrokerCommandLine
@testable import brokerd

/// The forms in which a server's log and measurements are shown: values without a server.
@Suite(.timeLimit(.minutes(5))) struct ObservingTests {
    /// A `stats` message with every member that it may have.
    private static func stats() throws -> JSONDocument {
        try JSONDocument(parsing: JSONText(copying: Array(Repository.text(of: "protocol/examples/stats.json").utf8)))
    }

    private static func statistics(_ changes: [(String, String)] = []) throws -> Statistics {
        var text = try Repository.text(of: "protocol/examples/stats.json")
        for (old, new) in changes {
            #expect(text.contains(old))
            text = text.replacing(old, with: new)
        }
        return try JSONDecoder().decode(Statistics.self, from: Data(text.utf8))
    }

    // MARK: - The log

    @Test func `a line of the log has milliseconds, a priority or members, and none can be forged`() throws {
        let line = LogLine(
            level: .notice, message: "A job failed.\nforged", metadata: ["id": "a b\u{1B}[2J\u{9B}", "code": "busy"],
            label: "brokerd", time: 1_772_366_400_007)
        let plain = #"A job failed.\u{A}forged code=busy id="a b\u{1B}[2J\u{9B}""#
        #expect(line.text(.text) == "2026-03-01T12:00:00.007Z notice brokerd: \(plain)")
        #expect(line.text(.journald) == "<5>\(plain)")
        let json = line.text(.json)
        #expect(!json.unicodeScalars.contains { "\n\u{1B}\u{9B}".unicodeScalars.contains($0) })
        let object = try #require(try JSONSerialization.jsonObject(with: Data(json.utf8)) as? [String: Any])
        #expect(object["time"] as? String == "2026-03-01T12:00:00.007Z" && object["level"] as? String == "notice")
        #expect(object["message"] as? String == "A job failed.\nforged")
        #expect(object["metadata"] as? [String: String] == ["id": "a b\u{1B}[2J\u{9B}", "code": "busy"])
        let numbered = LogLine(
            level: .info, message: "", metadata: ["bytes": "7", "id": "7", "took": "07"], label: "", time: 0)
        let numbers = numbered.text(.json)
        #expect(numbers.contains(#""metadata":{"bytes":7,"id":"7","took":"07"}"#), "\(numbers)")
        let priorities = Logger.Level.allCases.map { level in
            LogLine(level: level, message: "", label: "", time: 0).text(.journald)
        }
        #expect(priorities == ["<7>", "<7>", "<6>", "<5>", "<4>", "<3>", "<2>"])
    }

    @Test func `the journal's form is the default where standard error is the journal's stream`() {
        var status = stat()
        #expect(fstat(STDERR_FILENO, &status) == 0)
        let stream = "\(status.st_dev):\(status.st_ino)"
        #expect(LogFormat.isStandardError(stream))
        for other in ["", "1:1", stream + "0", "0" + stream, " " + stream] {
            #expect(!LogFormat.isStandardError(other), "\(other)")
        }
    }

    // MARK: - Metrics

    @Test func `each metric is in the text once, with its help and type, and in the lists of the page`() throws {
        let document = try Self.stats()
        let lines = withExtendedLifetime(document) {
            PrometheusText.text(document.root, instance: "main").split(separator: "\n").map(String.init)
        }
        let page = try Repository.text(of: "protocol/running.md")
        let rest = try #require(page.components(separatedBy: "\n## Metrics\n").last)
        let section = try #require(rest.components(separatedBy: "\n## ").first)
        let named = section.matches(of: /`(broker_\w+)`/).map { String($0.1) }
        #expect(named == ServerMetric.all.map(\.name))
        for metric in ServerMetric.all {
            #expect(lines.count { $0 == "# TYPE \(metric.name) \(metric.kind.rawValue)" } == 1)
            #expect(lines.count { $0 == "# HELP \(metric.name) \(metric.help)" } == 1)
            #expect(metric.name.hasSuffix("_total") == (metric.kind == .counter), "\(metric.name)")
            #expect(metric.name.hasSuffix("_duration_seconds") == (metric.kind == .histogram), "\(metric.name)")
        }
        let server = #"instance="main",store="/var/lib/broker/store.sqlite""#
        for line in [
            #"broker_info{server="broker"} 1"#, #"broker_store_state{state="waiting"} 1"#,
            #"broker_job_failures_total{code="storeFull"} 1"#, #"broker_rejected_records_total{entity="Employee"} 4"#,
            #"broker_interpreted_operations_total{reason="tombstone"} 2"#,
            #"broker_oldest_job_age_seconds{} 0.14"#,
            #"broker_last_checkpoint_timestamp_seconds{} 1772366400.123"#,
            #"broker_job_duration_seconds_bucket{le="0.0001"} 119"#,
            #"broker_job_stage_duration_seconds_bucket{stage="queued",le="+Inf"} 1195"#,
            #"broker_job_duration_seconds_sum{} 4.103"#, #"broker_job_duration_seconds_count{} 1195"#,
        ] {
            let brace = try #require(line.firstIndex(of: "{"))
            let rest = line[line.index(after: brace)...]
            #expect(lines.contains(line[...brace] + server + (rest.hasPrefix("}") ? "" : ",") + rest), "\(line)")
        }
        let labels = try JSONDocument(parsing: JSONText(copying: Array(##"{"server": "a\"b\\c\nd"}"##.utf8)))
        #expect(
            withExtendedLifetime(labels) { PrometheusText.text(labels.root, instance: "main") }
                .contains(#"broker_info{instance="main",server="a\"b\\c\nd"} 1"#))
        let names = ["/run/broker/orders.sock", "broker.sock", "orders", "a/b.c.sock", ""].map(PrometheusText.instance)
        #expect(names == ["orders", "broker", "orders", "b", "broker"])
    }

    @Test func `the alerts and the dashboard name metrics that there are`() throws {
        let document = try Self.stats()
        let text = withExtendedLifetime(document) { PrometheusText.text(document.root, instance: "main") }
        let up = PrometheusText.up(true, instance: "main", store: nil)
        let known = Set((up + text).matches(of: /(?m)^(broker_\w+)/).map { String($0.1) })
        let alerts = try Repository.text(of: "protocol/operations/alerts.yml")
        let dashboard = try Repository.text(of: "protocol/operations/dashboard.json")
        _ = try #require(try JSONSerialization.jsonObject(with: Data(dashboard.utf8)) as? [String: Any])
        for page in [alerts, dashboard] {
            let named = page.matches(of: /broker_\w+/).map { String($0.0) }
            #expect(named.count > 10)
            for name in named { #expect(known.contains(name), "\(name)") }
        }
        // The states and labels in them are those of the text.
        for match in (alerts + dashboard).matches(of: /(broker_\w+)\{[^}]*state=\\?"(\w+)\\?"/) {
            #expect(
                text.contains(#"\#(match.1){instance="main",store="/var/lib/broker/store.sqlite",state="\#(match.2)"}"#)
            )
        }
    }

    private static let hasPromtool =
        (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":").contains {
            access("\($0)/promtool", X_OK) == 0
        }

    @Test(.enabled(if: hasPromtool, "takes promtool, of the Debian package prometheus"))
    func `promtool finds no fault in the alerts and in the text`() throws {
        let programs = try Programs()
        let document = try Self.stats()
        let text = withExtendedLifetime(document) { PrometheusText.text(document.root, instance: "main") }
        for (line, input) in [
            ("promtool check rules '\(Repository.path(of: "protocol/operations/alerts.yml"))'", ""),
            ("promtool check metrics", text),
        ] {
            let result = try programs.shell(line, input: input)
            #expect(result.status == 0 && result.complaints.isEmpty, "\(line): \(result)")
        }
    }

    @Test(.enabled(if: hasPromtool, "takes promtool, of the Debian package prometheus"))
    func `each alert is about the server that it concerns, also beside another one`() throws {
        let programs = try Programs()
        let rules = Repository.path(of: "protocol/operations/alerts.yml")
        func series(_ instance: String, gone: Bool = false, slow: Bool = false) -> String {
            let labels = #"instance="\#(instance)",store="/\#(instance).sqlite""#
            return """
                      - {series: 'broker_info{\(labels)}', values: '\(gone ? "1x5 _x60" : "1x65")'}
                      - {series: 'broker_up{\(labels)}', values: '\(gone ? "1x5 0x60" : "1x65")'}
                      - {series: 'broker_job_duration_seconds_bucket{\(labels),le="1"}', values: '\(slow ? "0x65" : "0+9x65")'}
                      - {series: 'broker_job_duration_seconds_bucket{\(labels),le="30"}', values: '0+9x65'}
                      - {series: 'broker_job_duration_seconds_bucket{\(labels),le="+Inf"}', values: '0+9x65'}

                """
        }
        func expected(_ alert: String, _ instance: String) -> String {
            #"          - {labels: '{alertname="\#(alert)",instance="\#(instance)",store="/\#(instance).sqlite"}', value: 1}"#
        }
        let tests = """
            rule_files: ['\(rules)']
            tests:
              - interval: 1m
                input_series:
            \(series("a", slow: true))\(series("b", gone: true))
                promql_expr_test:
                  - expr: count by (alertname, instance, store) (ALERTS{alertstate="firing",alertname!="BrokerMeasurementsStale"})
                    eval_time: 50m
                    exp_samples:
            \(expected("BrokerAbsent", "b"))
            \(expected("BrokerDown", "b"))
            \(expected("BrokerSlow", "a"))
            """
        try programs.write(tests, to: "rules.yml")
        let result = try programs.shell("promtool test rules rules.yml")
        #expect(result.status == 0, "\(result)")
    }

    // MARK: - Health and top

    @Test func `the worst state of a server decides its health`() throws {
        let waiting = (#""state": "waiting", "cause": "Another program has locked the store.""#, #""state": "serving""#)
        let reloaded = (#""successful": false"#, #""successful": true"#)
        let paused = (#""paused": false"#, #""paused": true"#)
        let draining = (#""draining": false"#, #""draining": true"#)
        let cases: [([(String, String)], Health.State, Int32)] = [
            ([waiting, reloaded], .serving, 0), ([waiting], .degraded, 7), ([], .waiting, 5), ([paused], .waiting, 5),
            ([waiting, paused], .paused, 6),
            ([waiting, paused, draining], .stopping, 6),
            ([(#""state": "waiting""#, #""state": "failed""#), paused], .failed, 1),
        ]
        for (changes, state, status) in cases {
            let health = Health(try Self.statistics(changes))
            #expect(health.state == state && health.status.rawValue == status)
            #expect(health.line.hasPrefix("\(state.rawValue): ") && !health.line.contains("\n"), "\(health.line)")
        }
        #expect(Health(.unreachable, "x").status.rawValue == 4)
    }

    @Test func `the screen of top fits 80 columns and 24 rows, whatever the numbers are`() throws {
        let all = "9876543210123"
        let large = try Self.statistics([
            ("61000", all), ("500000", all), ("1190", all), ("94371840", all), ("4718592", "10995116277760"),
            ("734003200", all), ("225485783040", all), ("1193", all), ("16875552", all), ("118}", "9999999999}"),
            ("160", all), (#""open": 3"#, #""open": 1000000"#), ("1024}", "1000000}"),
        ])
        for (now, before) in [(large, nil), (large, try Self.statistics()), (try Self.statistics(), large)] {
            let screen = TopScreen(now, before: before, seconds: 1)
            #expect(screen.lines.count <= 24)
            for line in screen.lines + (before == nil ? [screen.plainLine] : []) {
                #expect(line.count <= 80, "\(line)")
            }
        }
        let screen = TopScreen(try Self.statistics(), before: try Self.statistics([("1190", "1180")]), seconds: 2)
        let jobs = screen.lines.first { $0.hasPrefix("jobs ") }?.split(separator: " ")
        #expect(jobs == ["jobs", "5", "40", "1,190"])
        #expect(screen.plainLine.split(separator: " ").first == "5")
    }

    @Test func `numbers are short`() {
        let times = [
            (0, "0 µs"), (999, "999 µs"), (1_000, "1 ms"), (1_549, "1.5 ms"), (999_999, "1000 ms"),
            (90_000_000, "1.5 min"),
            (86_400_000_000, "1 d"),
        ].map { (ShortText.time(microseconds: $0.0), $0.1) }
        let bytes = [(0, "0 B"), (999, "999 B"), (1_000, "1 KiB"), (1_536, "1.5 KiB"), (5 << 40, "5 TiB")].map {
            (ShortText.bytes($0.0), $0.1)
        }
        let counts = [(0, "0"), (999, "999"), (1_000, "1,000"), (-1_234_567, "-1,234,567")].map {
            (ShortText.count($0.0), $0.1)
        }
        for (shown, wanted) in times + bytes + counts { #expect(shown == wanted) }
    }

    // MARK: - Tables

    @Test func `a table pads all columns but the last, and is cut to the terminal`() {
        var table = TextTable(["name", "count", "rest"], right: [1])
        table.add(["a\u{1B}", "1", "short"])
        table.add(["äöü", "1,234", "日本語 and more"])
        #expect(
            table.lines(columns: nil) == [
                #"NAME     COUNT  REST"#, #"a\u{1B}      1  short"#, #"äöü      1,234  日本語 and more"#,
            ])
        #expect(table.lines(columns: 20).map { $0.hasSuffix("…") } == [false, true, true])
        #expect(table.lines(columns: 20).last == "äöü      1,234  日…")
        #expect(TextTable.wrapped(["one,", "two,", "three"], after: 4, columns: 13) == ["one, two,", "    three"])
    }
}

/// The commands that look at a server, as a user at a shell runs them.
@Suite(.timeLimit(.minutes(5))) struct ObservingCommandTests {
    private func broker(_ programs: Programs, _ arguments: [String], input: String = "") throws -> Programs.Result {
        try programs.run("broker", arguments + ["--socket", "broker.sock"], input: input)
    }

    @Test func `top ends when its reader has gone`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        let top = "timeout \(Patience.seconds) '\(programs.executable("broker").path)' top --socket broker.sock"
        let result = try programs.shell("{ \(top); echo $? > status; } | head -n 1")
        #expect(result.output.hasPrefix("  jobs/s") && result.complaints.isEmpty, "\(result)")
        #expect(try String(contentsOfFile: programs.path("status"), encoding: .utf8) == "0\n")
    }

    @Test func `a refused reload is in the state, the counters and the metrics until one succeeds`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        func isReloaded(_ value: String) throws -> Bool {
            let store = URL(fileURLWithPath: programs.path("store.sqlite")).resolvingSymlinksInPath().path
            return try broker(programs, ["stats", "--format", "prometheus", "--instance", "main"]).output.contains(
                "\nbroker_config_last_reload_successful{instance=\"main\",store=\"\(store)\"} \(value)\n")
        }
        #expect(try isReloaded("1"))
        #expect(try !broker(programs, ["stats", "--json"]).output.contains("lastReload"))
        try programs.write("{}", to: "model.json")
        #expect(try broker(programs, ["admin", "reload"]).status == 1)
        let health = try broker(programs, ["health", "--json"])
        #expect(health.status == 7 && health.output.contains(#""state":"degraded","status":7"#), "\(health)")
        let line = try broker(programs, ["health"]).output
        #expect(
            line.hasPrefix("degraded: ") && line.contains("the next start would fail") && line.contains("model.json"))
        #expect(try broker(programs, ["stats", "--json"]).output.contains(#""successful":false,"reason":"The model "#))
        #expect(try isReloaded("0"))
        #expect(try broker(programs, ["submit", "--entity", "Employee"], input: #"{"id": 1}"#).status == 0)
        try programs.write(Programs.model, to: "model.json")
        #expect(try broker(programs, ["admin", "reload"]).status == 0)
        #expect(try broker(programs, ["health"]).status == 0)
        #expect(try isReloaded("1"))
    }

    @Test func `a store that has no room for a job is full in the state, though smaller jobs are stored`() throws {
        let programs = try Programs()
        _ = try programs.startServer(limit: "-f 4096")
        let submit = ["submit", "--entity", "Employee"]
        let name = String(repeating: "x", count: 6 << 20)
        let large = try broker(programs, submit, input: "{\"id\": 1, \"name\": \"\(name)\"}")
        #expect(large.status == 1 && large.complaints.contains("storeFull"), "\(large)")
        for id in 2...3 {
            let health = try broker(programs, ["health"])
            #expect(health.status == 5 && health.output.contains("is full"), "\(health)")
            #expect(try broker(programs, submit, input: "{\"id\": \(id)}").status == 0)
        }
    }

    @Test func `top says since when a server is lost that was stopped or killed, and goes on when it answers`() throws {
        let programs = try Programs()
        let server = try programs.startServer()
        _ = try programs.start(
            "'\(programs.executable("broker").path)' top --socket broker.sock >'\(programs.path("top"))' 2>&1")
        func text() -> String { (try? String(contentsOfFile: programs.path("top"), encoding: .utf8)) ?? "" }
        func waitFor(_ line: String) { while !text().hasSuffix(line) { usleep(10_000) } }
        waitFor(" serving\n")
        let isLost = { text().split(separator: "\n").last?.hasPrefix("lost since ") == true }
        for signal in [SIGSTOP, SIGKILL] {
            kill(server.processIdentifier, signal)
            let start = ContinuousClock.now
            while !isLost() { usleep(10_000) }
            #if !DEBUG
            #expect(ContinuousClock.now - start < .seconds(3))
            #endif
            if signal == SIGSTOP {
                kill(server.processIdentifier, SIGCONT)
                waitFor(" serving\n")
            }
        }
    }

    @Test func `the state, the jobs and the entities of a server are printed`() throws {
        let programs = try Programs()
        let log = programs.path("log")
        try programs.write("", to: "log")
        let server = try programs.startServer(
            ["--log-format", "json", "--slow-job", "1ms", "--metrics-file", "broker.prom", "--instance", "main"],
            complaints: try #require(FileHandle(forWritingAtPath: log)))
        let ping = try broker(programs, ["ping"])
        #expect(ping.status == 0 && ping.output.contains(" answered in "), "\(ping.complaints)")
        let submit = ["submit", "--entity", "Employee", "--id"]
        #expect(try broker(programs, submit + ["good"], input: #"{"id": 1}"#).status == 0)
        #expect(try broker(programs, submit + ["bad"], input: #"{"id": "x"}"#).status == 1)
        let health = try broker(programs, ["health"])
        #expect(health.status == 0 && health.output.hasPrefix("serving: up "), "\(health.output)")
        let entities = try broker(programs, ["entities"])
        #expect(
            entities.output.contains("Employee          1  id        id, name, department → Department\n"),
            "\(entities.output)")
        let jobs = try broker(programs, ["jobs"])
        #expect(
            jobs.output.contains("No job is running.") && jobs.output.contains(" bad-1  invalidValue at /json/0/id: "),
            "\(jobs.output)")
        let text = try broker(programs, ["stats", "--format", "prometheus"])
        #expect(text.output.contains(/\nbroker_jobs_completed_total\{instance="broker",store="[^"]+"\} 1\n/))
        let file = try String(contentsOfFile: programs.path("broker.prom"), encoding: .utf8)
        #expect(file.contains("# TYPE broker_job_duration_seconds histogram\n"))
        #expect(file.contains(/\nbroker_jobs_failed_total\{instance="main",store="[^"]+"\}/))
        func failed(_ filter: String...) throws -> Bool {
            try broker(programs, ["jobs"] + filter).output.contains(" bad-1  invalidValue")
        }
        let shown = try broker(programs, ["jobs", "show", "bad-1"])
        #expect(shown.status == 1 && shown.complaints.contains("invalidValue"), "\(shown)")
        let user = String(getuid())
        #expect(try failed("--since", "1h", "--user", user, "--code", "invalidValue"))
        #expect(try failed("--failed", "--since", "2026-03-01T12:00:00Z") && failed("--user", "4294967295") == false)
        #expect(try failed("--code", "busy") == false && failed("--since", "2999-03-01T12:00:00Z") == false)
        let unknown = try broker(programs, ["jobs", "--code", "busi"])
        #expect(
            unknown.status == 1 && unknown.complaints.contains("There is no code \"busi\""), "\(unknown.complaints)")
        for wrong in [["--since", "yesterday"], ["--user", "no such user"], ["--slow", "--code", "busy"]] {
            #expect(try broker(programs, ["jobs"] + wrong).status == 2, "\(wrong)")
        }
        #expect(try broker(programs, ["top", "--once"]).output.hasPrefix("serving: "))
        #expect(try broker(programs, ["admin", "pause"]).status == 0)
        let paused = try broker(programs, ["health", "--json"])
        #expect(paused.status == 6 && paused.output.contains(#""state":"paused""#))
        server.terminate()
        server.waitUntilExit()
        #expect(!FileManager.default.fileExists(atPath: programs.path("broker.prom")))
        let gone = try broker(programs, ["health"])
        #expect(gone.status == 4 && gone.output.hasPrefix("unreachable: ") && gone.complaints.isEmpty)
        #expect(try broker(programs, ["ping"]).status == 4)
        let lines = try String(contentsOfFile: log, encoding: .utf8).split(separator: "\n")
        let failed = try #require(lines.first { $0.contains("A job failed.") })
        #expect(try Message(text: String(failed))["metadata.id"] == "bad-1")
        let local = try programs.run("broker", ["jobs", "--store", "store.sqlite", "--model", "model.json"])
        #expect(
            local.output.contains(" bad-1  invalidValue at ") && !local.output.contains("running"),
            "\(local.complaints)")
    }
}

/// `brokerd --metrics-file` replaces and deletes measurements, and no other file.
@Suite(.timeLimit(.minutes(5))) struct MetricsFileTests {
    private let programs: Programs
    private let files = FileManager.default

    init() throws { programs = try Programs() }

    private func brokerd(_ metrics: String, check: Bool) throws -> Programs.Result {
        try programs.run(
            "brokerd",
            ["--model", "model.json", "--store", "store.sqlite", "--socket", "broker.sock", "--metrics-file", metrics]
                + (check ? ["--check"] : []))
    }

    @Test func `files of the store, other files and what is no file stay, and the check says so`() throws {
        _ = try programs.run(
            "broker", ["submit", "--store", "store.sqlite", "--model", "model.json", "--entity", "Employee"],
            input: #"[{"id": 1}]"#)
        try files.createDirectory(atPath: programs.path("store.sqlite.journal"), withIntermediateDirectories: false)
        try programs.write("other\n# HELP broker_info 1\n", to: "other.prom")
        try files.createSymbolicLink(atPath: programs.path("link.prom"), withDestinationPath: "/dev/null")
        try files.createSymbolicLink(atPath: programs.path("alias"), withDestinationPath: programs.folder)
        try #require(mkfifo(programs.path("fifo.prom"), 0o600) == 0)
        let names = [
            "store.sqlite", "store.sqlite-wal", "store.sqlite-shm", "store.sqlite-journal", "store.sqlite.lock",
            "alias/store.sqlite-wal", "store.sqlite.journal/a.prom", "model.json", "other.prom", "link.prom",
            "fifo.prom", "store.sqlite.journal",
        ]
        func snapshot() throws -> [String: Data] {
            var contents: [String: Data] = [:]
            for name in try files.contentsOfDirectory(atPath: programs.folder) where !name.hasPrefix(".") {
                contents[name] = name == "fifo.prom" ? Data() : files.contents(atPath: programs.path(name)) ?? Data()
            }
            return contents
        }
        let before = try snapshot()
        for name in names {
            for check in [true, false] {
                let result = try brokerd(name, check: check)
                #expect(result.status == 1, "\(name): \(result)")
                #expect(
                    result.complaints.contains("The file \(name) of --metrics-file cannot be written: "),
                    "\(name): \(result)")
                #expect(try snapshot() == before, "\(name)")
            }
        }
    }

    @Test func `measurements of an earlier run are replaced, and a file that was put in their place stays`() throws {
        try programs.write("# HELP broker_info of another version\n", to: "broker.prom")
        #expect(try brokerd("broker.prom", check: true).status == 0)
        let server = try programs.startServer(["--metrics-file", "broker.prom"])
        while !(try String(contentsOfFile: programs.path("broker.prom"), encoding: .utf8).contains("broker_uptime")) {}
        // A start that is refused because the store is taken leaves the file of the server that has it.
        #expect(try brokerd("broker.prom", check: false).status == 1)
        let text = try String(contentsOfFile: programs.path("broker.prom"), encoding: .utf8)
        #expect(text.contains(/\nbroker_config_last_reload_successful\{instance="broker",store="[^"]+"\} 1\n/))
        try programs.write("mine", to: "broker.prom")
        server.terminate()
        server.waitUntilExit()
        #expect(try String(contentsOfFile: programs.path("broker.prom"), encoding: .utf8) == "mine")
    }
}

/// The notifications to a service manager, without a clock and a socket.
@Suite(.timeLimit(.minutes(5))) struct ServiceNoticesTests {
    private let second: Int64 = 1_000_000

    private func serving(_ jobs: Int = 0, waiting cause: String? = nil, isPaused: Bool = false) -> ServiceStatus {
        var condition = CoordinatorCondition()
        (condition.jobs, condition.waitingCause, condition.isPaused) = (jobs, cause, isPaused)
        return ServiceStatus(condition, connections: 1, refusal: nil)
    }

    @Test func `the watchdog is fed at half its time while the writer makes progress, and not when it is stuck`() {
        var notices = ServiceNotices(watchdogMicroseconds: 20 * second)
        _ = notices.ready(serving(), at: 0)
        var fed: [Int64] = []
        for time in 1...100 as ClosedRange<Int64> {
            // From second 50 to 70 one step takes all the time; then the writer waits for jobs.
            let sample = WriterActivity.Sample(isWaiting: time > 70, steps: Int(min(time, 50)))
            if notices.tick(sample, serving(), at: time * second).contains("WATCHDOG=1") { fed.append(time) }
        }
        #expect(fed == [1, 11, 21, 31, 41, 51, 71, 81, 91])
        #expect(ServiceNotices(watchdogMicroseconds: 400_000).tickMicroseconds == 50_000)
    }

    @Test func `a start, a reload and a stop get more time while there is progress, and a running server none`() {
        var notices = ServiceNotices(watchdogMicroseconds: nil)
        func extends(_ from: Int64, _ through: Int64, progress: Bool) -> Int {
            (from...through).count { time in
                let sample = WriterActivity.Sample(steps: progress ? Int(time) : 0)
                return notices.tick(sample, .starting, at: time * second).contains("EXTEND_TIMEOUT_USEC=60000000")
            }
        }
        #expect(extends(1, 20, progress: true) == 4)
        #expect(extends(21, 100, progress: false) == 1)
        _ = notices.ready(serving(), at: 100 * second)
        #expect(extends(101, 120, progress: true) == 0)
        _ = notices.reloadBegan(at: 120 * second)
        #expect(extends(121, 140, progress: true) == 4)
        _ = notices.reloadEnded(serving(), at: 140 * second)
        #expect(extends(141, 160, progress: true) == 0)
        #expect(notices.stopping(serving(), at: 160 * second).first == "STOPPING=1")
        #expect(extends(161, 180, progress: true) == 4)
    }

    @Test func `a reload that is asked for during another is notified with its time, and both end together`() {
        var notices = ServiceNotices(watchdogMicroseconds: nil)
        _ = notices.ready(serving(), at: 0)
        #expect(notices.reloadBegan(at: 5).prefix(2) == ["RELOADING=1", "MONOTONIC_USEC=5"])
        #expect(notices.reloadBegan(at: 7).prefix(2) == ["RELOADING=1", "MONOTONIC_USEC=7"])
        #expect(notices.isReloading)
        #expect(notices.reloadEnded(serving(), at: 9).isEmpty)
        #expect(notices.reloadEnded(serving(), at: 11).first == "READY=1")
        #expect(!notices.isReloading)
    }

    @Test func `the status names the cause of a wait at once, and numbers are sent every ten seconds`() {
        var notices = ServiceNotices(watchdogMicroseconds: nil)
        #expect(notices.ready(serving(), at: 0) == ["READY=1", "STATUS=Serving: 1 connection, 0 jobs in flight."])
        let sample = WriterActivity.Sample()
        #expect(notices.tick(sample, serving(2), at: 2 * second).isEmpty)
        let waiting = serving(2, waiting: "The disk\nis full.")
        #expect(
            notices.tick(sample, waiting, at: 3 * second)
                == [#"STATUS=Waiting for the store: 1 connection, 2 jobs in flight. The disk\u{A}is full."#])
        #expect(notices.tick(sample, waiting, at: 30 * second).isEmpty)
        #expect(
            notices.tick(sample, serving(1, isPaused: true), at: 31 * second).first?.hasPrefix("STATUS=Paused") == true)
        #expect(notices.tick(sample, serving(2, isPaused: true), at: 40 * second).isEmpty)
        #expect(notices.tick(sample, serving(2, isPaused: true), at: 41 * second).count == 1)
    }

    @Test func `what the manager addressed to another process is ignored`() {
        let variables = [
            "NOTIFY_SOCKET": "@a", "WATCHDOG_USEC": "5", "WATCHDOG_PID": "7", "LISTEN_FDS": "1", "LISTEN_PID": "7",
        ]
        let own = ServiceEnvironment(variables, process: 7)
        #expect((own.notifySocket, own.watchdogMicroseconds, own.descriptorCount) == ("@a", 5, 1))
        let other = ServiceEnvironment(variables, process: 8)
        #expect((other.notifySocket, other.watchdogMicroseconds, other.descriptorCount) == ("@a", nil, 0))
        #expect(ServiceEnvironment(["WATCHDOG_USEC": "5"], process: 8).watchdogMicroseconds == 5)
        #expect(ServiceEnvironment(["WATCHDOG_USEC": "-5", "LISTEN_FDS": "1"], process: 8) == .init([:], process: 8))
    }
}
