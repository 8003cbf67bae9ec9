import BrokerJSON
@testable import LoadTesting
import Testing

@Suite(.timeLimit(.minutes(5)))
struct ReportTests {
    private func report(jobs: Int = 100, accepted: Bool = true) -> RunReport {
        var recorder = RunRecorder()
        for job in 0..<jobs {
            recorder.sent(late: 10, contentBytes: 300, frameBytes: 100)
            if accepted { recorder.accepted(latency: UInt64(job + 1) * 500) }
            recorder.ended(records: 2, latency: UInt64(job + 1) * 1_000)
            if job % 10 == 9 { recorder.closeInterval(at: Double(job + 1) / 100) }
        }
        var result = RunResult()
        result.seconds = 1
        result.recorder = recorder
        for _ in 0..<102 { result.accounts.send(intendedAt: 0) }
        for job in 0..<100 { _ = result.accounts.end(job, LoadAnswer(kind: .completed)) }
        _ = result.accounts.end(100, LoadAnswer(kind: .failed(code: "invalidValue", message: "<b>no & number</b>")))
        return RunReport(offeredRate: 100, arguments: ["--seed", "1"], result: result)
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
        #expect(document.root["intervals"].map { Array($0.elements).count } == 10)
        #expect(document.root["arguments"]?.elements.compactMap(\.string) == ["--seed", "1"])
    }

    @Test func `the server's texts are printed without characters that a terminal interprets`() {
        var report = report()
        _ = report.result.accounts.end(101, LoadAnswer(kind: .failed(code: "bad\u{1B}[2J", message: "no\nfailed 0")))
        report.result.strangeMessage = "\u{1B}]0;x\u{7}"
        #expect(report.text.contains(#"1 × no\u{A}failed 0 (bad\u{1B}[2J)"#), "\(report.text)")
        #expect(report.text.contains(#"\u{1B}]0;x\u{7}"#))
        #expect(!report.text.unicodeScalars.contains("\u{1B}"))
    }

    @Test func `the text has the failures with their messages`() {
        let text = report().text
        #expect(text.contains("1 × <b>no & number</b> (invalidValue)"))
        #expect(text.contains("102 jobs sent, 100 ok, 1 failed, 1 lost, 0 duplicate, 0 with rejects"))
    }
}
