import BrokerJSON
@testable import BrokerLoad
import Testing

@Suite(.timeLimit(.minutes(5)))
struct ReportTests {
    private func report(jobs: Int = 100, accepted: Bool = true) -> RunReport {
        var recorder = RunRecorder(wantsLog: false)
        for job in 0..<jobs {
            recorder.sent(late: 10, contentBytes: 300, frameBytes: 100)
            if accepted { recorder.accepted(latency: UInt64(job + 1) * 500) }
            recorder.ended(
                records: 2, latency: UInt64(job + 1) * 1_000,
                stages: Answer.Stages(queued: 1, staged: 2, merged: 3, committed: 4))
            if job % 10 == 9 { recorder.closeInterval(at: Double(job + 1) / 100) }
        }
        var result = RunResult()
        result.seconds = 1
        result.jobs = recorder.jobs
        result.records = recorder.records
        result.contentBytes = recorder.contentBytes
        result.completed = recorder.completed
        result.accepted = recorder.accepted
        result.lag = recorder.lag
        result.stages = recorder.stages
        result.intervals = recorder.intervals
        result.totals = JobAccounts.Totals(sent: 102, ok: 100, failed: 1)
        result.lost = 1
        result.failures = ["invalidValue": (1, "<b>no & number</b>")]
        var environment = RunEnvironment(server: "broker", process: nil)
        environment.add("note", "<script>alert(1)</script>")
        return RunReport(
            name: "run", offeredRate: 100, settings: [("seed", "1")], environment: environment, result: result)
    }

    private func parse(_ bytes: [UInt8]) throws -> JSONDocument { try JSONDocument(parsing: JSONText(copying: bytes)) }

    @Test func `the report as JSON has what was measured`() throws {
        let document = try parse(report().json)
        func number(_ path: String...) -> Double? {
            path.reduce(document.root as JSONValue?) { $0?[$1] }?.double
        }
        #expect(number("offeredJobsPerSecond") == 100)
        #expect(number("jobsPerSecond") == 100)
        #expect(number("recordsPerSecond") == 200)
        #expect(number("total", "sent") == 102)
        #expect(number("total", "failed") == 1)
        #expect(number("total", "lost") == 1)
        #expect(number("failures", "invalidValue") == 1)
        #expect(number("latencyMicroseconds", "completed", "p50").map { abs($0 - 50) < 0.1 } == true)
        #expect(number("latencyMicroseconds", "completed", "max").map { abs($0 - 100) < 0.1 } == true)
        #expect(number("latencyMicroseconds", "accepted", "max").map { abs($0 - 50) < 0.1 } == true)
        #expect(number("stagesMicroseconds", "merged", "p99").map { abs($0 - 3) < 0.01 } == true)
        #expect(document.root["intervals"].map { Array($0.elements).count } == 10)
        #expect(document.root["settings"]?["seed"]?.string == "1")
        #expect(document.root["environment"]?["server"]?.string == "broker")
    }

    @Test func `the server's texts are printed without characters that a terminal interprets`() {
        var report = report()
        report.result.failures = ["bad\u{1B}[2J": (1, "no\nfailed 0")]
        report.result.strangeMessage = "\u{1B}]0;x\u{7}"
        #expect(report.text.contains(#"1 × no\u{A}failed 0 (bad\u{1B}[2J)"#), "\(report.text)")
        #expect(report.text.contains(#"\u{1B}]0;x\u{7}"#))
        #expect(!report.text.unicodeScalars.contains("\u{1B}"))
    }

    @Test func `a page is one file`() {
        for html in [RunPage(report()).html, RunPage(report(jobs: 0, accepted: false)).html, sweep.html] {
            for outside in ["http:", "https:", "src=", "<link", "<script", "@import", "url(", "<img", "<iframe"] {
                #expect(!html.contains(outside), "\(outside)")
            }
            #expect(html.hasPrefix("<!doctype html>"))
            #expect(html.contains("prefers-color-scheme: dark"))
            #expect(html.contains("&lt;script&gt;"))
            #expect(!html.contains("nan"))
        }
        #expect(RunPage(report()).html.components(of: "<polyline") == 6)
    }

    private var sweep: SweepReport { SweepReport(ceiling: 1_000, steps: [(50, report()), (110, report())]) }

    @Test func `a sweep reports each step as text and JSON`() throws {
        let document = try parse(sweep.json)
        #expect(document.root["ceilingJobsPerSecond"]?.double == 1_000)
        #expect(document.root["steps"]?.elements.compactMap { $0["percent"]?.double } == [50, 110])
        #expect(sweep.text.split(separator: "\n").count == 4)
    }

    @Test func `the text has the failures with their messages`() {
        let text = report().text
        #expect(text.contains("1 × <b>no & number</b> (invalidValue)"))
        #expect(text.contains("102 sent, 100 ok, 1 failed, 0 busy, 1 lost, 0 duplicate, 0 with rejects"))
        #expect(text.contains("accepted"))
    }

    @Test func `peers are compared by their medians, and those that are absent are named`() throws {
        let report = ComparisonReport(
            results: [
                PeerResult(peer: .broker, work: .bulk, means: "", perSecond: [100, 300, 200]),
                PeerResult(peer: .sqlite3, work: .bulk, means: "", perSecond: [50, 40, 60]),
                PeerResult(peer: .redis, work: .oneByOne, means: "", perSecond: [], skipped: "it is not installed"),
            ], settings: [])
        #expect(report.ratio(report.results[1]) == 4)
        #expect(report.text.contains("Broker × 4.00"))
        #expect(report.text.contains("skipped: it is not installed"))
        let document = try parse(report.json)
        #expect(document.root["results"]?.elements.map { $0["brokerRatio"]?.double } == [1, 4, nil])
    }

    @Test(arguments: [(0.0, 0, "0"), (1.005, 1, "1.0"), (-1.26, 1, "-1.3"), (0.05, 1, "0.1"), (12.0, 3, "12.000")])
    func `numbers are rounded to their digits`(value: Double, digits: Int, text: String) {
        #expect(RunReport.decimal(value, digits) == text)
    }

    @Test func `logarithms are those of the library`() {
        let known = [(1.0, 0.0), (2, 1), (10, 3.321_928_094_887_362), (0.125, -3), (1e6, 19.931_568_569_324_174)]
        for (value, logarithm) in known {
            #expect(abs(Plot.logarithm(value) - logarithm) < 1e-9)
        }
    }
}

extension String {
    fileprivate func components(of part: String) -> Int { ranges(of: part).count }
}
