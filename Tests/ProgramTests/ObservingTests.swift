import Broker
import BrokerJSON
import Foundation
import Logging
import Testing

@testable import BrokerCommand
@testable import BrokerCommandLine

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
            .notice, "A job failed.\nforged", ["id": "a b\u{1B}[2J\u{9B}", "code": "busy"], label: "brokerd",
            time: 1_772_366_400_007)
        let plain = #"A job failed.\u{A}forged code=busy id="a b\u{1B}[2J\u{9B}""#
        #expect(line.text(.text) == "2026-03-01T12:00:00.007Z notice brokerd: \(plain)")
        #expect(line.text(.journald) == "<5>\(plain)")
        let json = line.text(.json)
        #expect(!json.unicodeScalars.contains { "\n\u{1B}\u{9B}".unicodeScalars.contains($0) })
        let object = try #require(try JSONSerialization.jsonObject(with: Data(json.utf8)) as? [String: Any])
        #expect(object["time"] as? String == "2026-03-01T12:00:00.007Z" && object["level"] as? String == "notice")
        #expect(object["message"] as? String == "A job failed.\nforged")
        #expect(object["metadata"] as? [String: String] == ["id": "a b\u{1B}[2J\u{9B}", "code": "busy"])
        let priorities = Logger.Level.allCases.map { level in
            LogLine(level, "", [:], label: "", time: 0).text(.journald)
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

    @Test func `each metric is in the text once, with its help and type, and in the table of the page`() throws {
        let document = try Self.stats()
        let lines = withExtendedLifetime(document) {
            PrometheusText.text(document.root).split(separator: "\n").map(String.init)
        }
        let page = try Repository.text(of: "protocol/running.md")
        let named = page.matches(of: /(?m)^\| `(broker_\w+)` \| (\w+) \|/).map { "\($0.1) \($0.2)" }
        #expect(named == ServerMetric.all.map { "\($0.name) \($0.kind.rawValue)" })
        for metric in ServerMetric.all {
            #expect(lines.count { $0 == "# TYPE \(metric.name) \(metric.kind.rawValue)" } == 1)
            #expect(lines.count { $0 == "# HELP \(metric.name) \(metric.help)" } == 1)
            #expect(metric.name.hasSuffix("_total") == (metric.kind == .counter), "\(metric.name)")
        }
        for line in [
            #"broker_info{server="broker"} 1"#, #"broker_store_state{state="waiting"} 1"#,
            #"broker_job_failures_total{code="storeFull"} 1"#, #"broker_rejected_records_total{entity="Employee"} 4"#,
            #"broker_interpreted_operations_total{reason="tombstone"} 2"#,
            "broker_oldest_job_age_seconds 0.14", "broker_last_checkpoint_timestamp_seconds 1772366400.123",
            #"broker_job_duration_seconds_bucket{le="0.0001"} 119"#,
            #"broker_job_stage_duration_seconds_bucket{stage="queued",le="+Inf"} 1195"#,
            "broker_job_duration_seconds_sum 4.103", "broker_job_duration_seconds_count 1195",
        ] { #expect(lines.contains(line), "\(line)") }
        let labels = try JSONDocument(parsing: JSONText(copying: Array(##"{"server": "a\"b\\c\nd"}"##.utf8)))
        #expect(
            withExtendedLifetime(labels) { PrometheusText.text(labels.root) }
                .contains(#"broker_info{server="a\"b\\c\nd"} 1"#))
    }

    @Test func `the alerts and the dashboard name metrics that there are`() throws {
        let document = try Self.stats()
        let text = withExtendedLifetime(document) { PrometheusText.text(document.root) }
        let known = Set(text.matches(of: /(?m)^(broker_\w+)/).map { String($0.1) })
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
            #expect(text.contains(#"\#(match.1){state="\#(match.2)"}"#))
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
        let text = withExtendedLifetime(document) { PrometheusText.text(document.root) }
        for (line, input) in [
            ("promtool check rules '\(Repository.path(of: "protocol/operations/alerts.yml"))'", ""),
            ("promtool check metrics", text),
        ] {
            let result = try programs.shell(line, input: input)
            #expect(result.status == 0 && result.complaints.isEmpty, "\(line): \(result)")
        }
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
        ].map { (Shown.time(microseconds: $0.0), $0.1) }
        let bytes = [(0, "0 B"), (999, "999 B"), (1_000, "1 KiB"), (1_536, "1.5 KiB"), (5 << 40, "5 TiB")].map {
            (Shown.bytes($0.0), $0.1)
        }
        let counts = [(0, "0"), (999, "999"), (1_000, "1,000"), (-1_234_567, "-1,234,567")].map {
            (Shown.count($0.0), $0.1)
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
