import Broker
import BrokerClient
import Foundation
import Testing

/// A server in trouble, seen in the console alone: by its words, and by the links that a reader follows from Now.
@Suite(.timeLimit(.minutes(10)), .enabled(if: WebDriver.isInstalled, "takes chromium and chromium-driver"))
struct ConsoleDrillTests {
    /// A slow job, a client that sends bad data, also with a job that skips it, and a full disk.
    private static func trouble(_ programs: Programs) async throws -> RemoteBroker {
        _ = try programs.startServer(["--slow-job", "1ms"], limit: "-f 8192")
        let client = RemoteBroker(.unixSocket(programs.path("broker.sock")), configuration: .init(name: "importer"))
        let rows = (1...5_000).map { #"{"id": \#($0), "name": "\#($0)"}"# }.joined(separator: ",")
        var slow = Job(.process(json: RawJSON("[\(rows)]"), as: "Employee"))
        slow.id = "much"
        _ = try await client.process(slow)
        for _ in 0..<3 {
            await #expect(throws: BrokerError.self) {
                try await client.process(Job(.process(json: RawJSON(#"{"id": "x"}"#), as: "Employee")))
            }
        }
        var skipping = Job(
            .process(
                json: RawJSON(#"[{"id": "7", "name": "Ada"}, {"id": "7b", "name": "Bob"}]"#), as: "Employee"))
        (skipping.id, skipping.onInvalid) = ("nightly", .skip)
        _ = try await client.process(skipping)
        let name = String(repeating: "x", count: 12 << 20)
        let large = try programs.run(
            "broker", ["submit", "--socket", "broker.sock", "--entity", "Employee", "--id", "large"],
            input: #"{"id": 1, "name": "\#(name)"}"#)
        #expect(large.complaints.contains("storeFull"), "\(large)")
        return client
    }

    /// The text of the page, and of the links that its notes have.
    private static func text(_ browser: WebDriver, _ selector: String = "main") throws -> String {
        try browser.text("return [...document.querySelectorAll('\(selector)')].map(e => e.innerText).join('\\n')")
    }

    /// Without a scroll in any direction.
    private static func expectSeen(_ browser: WebDriver, _ selector: String) throws {
        let box = "document.querySelector('\(selector)').getBoundingClientRect()"
        let isSeen = try browser.run("const box = \(box); return box.right <= innerWidth && box.bottom <= innerHeight")
        #expect(isSeen as? Bool == true, "\(selector)")
    }

    /// What a job skipped, and why.
    private static func expectRejected(_ browser: WebDriver, _ keep: (String) throws -> Void) throws {
        let first = try Self.text(browser, "tbody tr:first-child")
        #expect(first.contains("Employee") && first.contains(#"invalidValue at id: "7b" is not"#), "\(first)")
        #expect(first.contains("nightly"))
        try Self.expectSeen(browser, "tbody tr:first-child .text")
        try keep("rejected")
        try browser.run("document.querySelector('tbody a').click()")
        try browser.wait(for: "return document.querySelector('mark')?.textContent === '\"7b\"'")
        let record = try Self.text(browser)
        #expect(record.contains(/\/id\s+invalidValue: "7b" is not/), "\(record)")
        #expect(record.contains(#""name": "Bob""#))
        for selector in ["mark", "main button"] { try Self.expectSeen(browser, selector) }
        try keep("rejected-record")
    }

    @Test(arguments: [(1_280, 900, false), (390, 844, true)])
    func `a slow job, a client's bad data and a full disk are found from Now, with what to do`(
        width: Int, height: Int, isDark: Bool
    ) async throws {
        let programs = try Programs()
        let client = try await Self.trouble(programs)
        defer { client.close() }
        let (browser, address) = try BrowserTests.open(programs, "--allow-write")
        try browser.show(width: width, height: height, isDark: isDark)
        func follow(_ link: String) throws {
            try browser.open(address + "/")
            let selector = "main .note a[href=\"\(link)\"]"
            try browser.run("document.querySelector('\(selector)').click()")
            try browser.wait(for: "return location.pathname === '\(link)' && document.querySelector('h1') !== null")
        }
        func keep(_ name: String) throws {
            try BrowserTests.keep(browser, "drill-\(name)-\(width)\(isDark ? "-dark" : "")")
        }

        // Now: first what is wrong.
        let alert = try Self.text(browser, ".alert")
        #expect(alert.contains("waiting: The store") && alert.contains("is full") && alert.contains("free some space"))
        let note = try Self.text(browser, ".note")
        #expect(note.contains("More than a tenth of the jobs of the last minute failed: 4."), "\(note)")
        #expect(note.contains("Jobs skipped records: 1."), "\(note)")
        for selector in [".alert", ".note", ".note + .note"] { try Self.expectSeen(browser, selector) }
        #expect(try Self.text(browser, ".facts").contains("Newest backup\nnever"))
        try keep("now")

        // Clients: who sends it.
        try follow("/clients")
        let first = try Self.text(browser, "tbody tr:first-child")
        #expect(first.contains("importer") && first.contains(#"invalidValue: "x" is not a whole number"#), "\(first)")
        #expect(first.contains("\t3\t") && first.contains("Kick"), "\(first)")
        try Self.expectSeen(browser, "tbody tr:first-child .text")
        try Self.expectSeen(browser, "tbody tr:first-child button")
        try keep("clients")

        // Jobs: what was wrong with it, and what took long.
        try follow("/jobs")
        let jobs = try Self.text(browser)
        #expect(
            jobs.contains("invalidValue at /json/id: ") && jobs.contains("storeFull"), "\(jobs)")
        #expect(jobs.contains("send fewer in a job"))
        try Self.expectSeen(browser, ".scroll[aria-label^=Failed] tbody tr:first-child .text")
        let slow = try Self.text(browser, ".scroll[aria-label^=Slow] tbody tr")
        #expect(slow.contains(/(?m)^much\t[\d.]+ m?s\t/), "\(slow)")
        try keep("jobs")

        try follow("/rejected")
        try Self.expectRejected(browser, keep)
        #expect(try browser.complaints() == [])
    }
}
