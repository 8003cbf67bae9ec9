import Foundation
import Synchronization
import Testing

/// The page Rejected of `broker console`, with what it changes.
@Suite(.timeLimit(.minutes(5))) struct ConsoleRejectedTests {
    private static func model(salary: String) -> String {
        ConsoleTests.model.replacing(#""type": "decimal""#, with: "\"type\": \"\(salary)\"")
    }

    private let programs: Programs
    private let http: RawHTTP
    private let form: String

    init() throws {
        programs = try Programs()
        try programs.write(Self.model(salary: "decimal"), to: "model.json")
        _ = try programs.startServer()
        http = try ConsoleTests.open(programs, "--socket broker.sock --allow-write")
        form = String(try #require(try http.get("/").body.firstMatch(of: /name=form value="([0-9a-f]{32})"/)?.1))
    }

    private func skip(_ records: String, id: String, of entity: String = "Employee") throws {
        let submit = ["submit", entity, "--socket", "broker.sock", "--on-invalid", "skip", "--id", id]
        let submitted = try programs.run("broker", submit, input: records)
        #expect(submitted.status == 3, "\(submitted)")
    }

    private func post(_ path: String, _ fields: [String: String]) throws -> RawHTTP.Answer {
        try http.post(path, fields.merging(["form": form]) { one, _ in one })
    }

    /// The fields of the form that a page has for an action, without its token.
    private func fields(of page: RawHTTP.Answer, _ action: String) throws -> [String: String] {
        let form = try #require(page.body.split(separator: "<form ").first { $0.contains("action=\"\(action)\"") })
        let pairs = form.matches(of: /name="([a-z]+)" value="([^"]*)"/).map { (String($0.1), String($0.2)) }
        return Dictionary(uniqueKeysWithValues: pairs)
    }

    private func kept() throws -> [Int] {
        try http.get("/rejected").body.matches(of: /"\/rejected\/(\d+)"/).compactMap { Int($0.1) }
    }

    @Test func `one record or all of a filter are retried, and what is rejected again stays and says why`() throws {
        try skip(#"[{"id": 1, "salary": "much"}, {"id": 2, "salary": "more"}, {"id": "x"}]"#, id: "a")
        try skip(#"[{"number": 1, "series": []}]"#, id: "b", of: "Badge")
        #expect(try kept() == [2000, 1002, 1001, 1000])
        let early = try post("/rejected/retry", ["id": "1000"])
        #expect(early.status == 200 && early.body.contains("role=alert>Rejected again: invalidValue at "))
        #expect(try kept().count == 4)

        try programs.write(Self.model(salary: "string"), to: "model.json")
        let migrated = try programs.run("broker", ["migrate", "--drop", "--socket", "broker.sock"])
        #expect(migrated.status == 0, "\(migrated)")
        let one = try post("/rejected/retry", ["id": "1000"])
        #expect(one.status == 303 && one.headers["location"] == "/jobs/reject-1000", "\(one)")
        #expect(try http.get("/jobs/reject-1000").body.contains("Employee</a></th><td class=n>1</td>"))

        let list = try http.get("/rejected?entity=Employee")
        let question = try post("/rejected/retry", try fields(of: list, "/rejected/retry"))
        #expect(question.body.contains("<h1>Retry 2 rejected records of Employee?</h1>"), "\(question.body)")
        #expect(try kept() == [2000, 1002, 1001])
        // What comes after the question is not meant by its answer.
        try skip(#"[{"id": "y"}]"#, id: "c")
        let answer = try post("/rejected/retry", try fields(of: question, "/rejected/retry"))
        #expect(answer.body.contains("<h1>1 rejected record taken, 1 rejected again</h1>"), "\(answer.body)")
        #expect(answer.body.contains(">1002</a></th><td><div class=text>invalidValue at "), "\(answer.body)")
        #expect(try kept().suffix(2) == [2000, 1002])
        #expect(try http.get("/data/Employee").body.contains("more"))
    }

    @Test func `one record or all of a filter are dropped, and nothing else is`() throws {
        try skip(#"[{"id": "x"}, {"id": "y"}, {"id": "z"}]"#, id: "a")
        try skip(#"[{"id": "<b>"}]"#, id: "<b>")
        #expect(try kept() == [2000, 1002, 1001, 1000])
        #expect(try post("/rejected/drop", ["id": "1001"]).headers["location"] == "/rejected")
        #expect(try kept() == [2000, 1002, 1000])
        for action in ["drop", "retry"] {
            for id in ["1001", "", "x", "-1"] {
                let missing = try post("/rejected/\(action)", ["id": id])
                #expect(missing.status == 404 && missing.body.contains("There is no such rejected record"))
            }
        }
        let question = try post(
            "/rejected/drop", try fields(of: try http.get("/rejected?job=a-1"), "/rejected/drop"))
        #expect(question.body.contains("<h1>Drop 2 rejected records of job a-1?</h1>"), "\(question.body)")
        #expect(try kept().count == 3)
        let fields = try fields(of: question, "/rejected/drop")
        #expect(try post("/rejected/drop", fields.merging(["form": "x"]) { $1 }).status == 403)
        #expect(try post("/rejected/drop", fields).body.contains("<h1>2 rejected records dropped</h1>"))
        #expect(try kept() == [2000])
        let none = try post("/rejected/drop", fields.filter { $0.key != "confirmed" })
        #expect(none.body.contains("<h1>Drop 0 rejected records of job a-1?</h1>") && !none.body.contains("<form"))
    }

    @Test func `more records than a page or a form has go on where it was`() throws {
        let message = String(repeating: "<", count: 400)
        let bad = (0..<501).map { #"{"id": "\#(message)\#($0)"}"# }.joined(separator: ",")
        try skip("[\(bad)]", id: "many")
        let first = try http.get("/rejected")
        #expect(try kept() == Array((1451...1500).reversed()))
        let older = try #require(first.body.firstMatch(of: /rel=next href="([^"]*)"/)?.1)
        let second = try http.get(String(older))
        #expect(second.body.contains("\"/rejected/1450\"") && !second.body.contains("\"/rejected/1451\""))
        for page in [first, second] { #expect(page.body.utf8.count < 60_000) }

        let question = try post("/rejected/retry", try fields(of: first, "/rejected/retry"))
        #expect(question.body.contains("<h1>Retry 501 rejected records?</h1>"))
        let part = try post("/rejected/retry", try fields(of: question, "/rejected/retry"))
        #expect(part.body.contains("<h1>0 rejected records taken, 500 rejected again</h1>"), "\(part.body)")
        #expect(part.body.matches(of: /<tr>/).count == 51 && part.body.utf8.count < 60_000)
        #expect(part.body.contains(">Retry the other 1</button>"))
        let rest = try post("/rejected/retry", try fields(of: part, "/rejected/retry"))
        #expect(rest.body.contains("0 rejected records taken, 1 rejected again") && !rest.body.contains("<form"))
    }

    @Test func `of a record that is too large for the page, its beginning is shown`() throws {
        let list = Array(repeating: "0", count: 1 << 20).joined(separator: ",")
        try skip(#"[{"name": "<b>", "id": [\#(list)]}]"#, id: "large")
        let page = try http.get("/rejected/1000")
        #expect(
            page.body.contains(#"{&quot;name&quot;:"#) && page.body.contains("&lt;b&gt;"), "\(page.body.prefix(3_000))")
        #expect(page.body.contains("0,0…</pre>") || page.body.contains("0,…</pre>"), "\(page.body.suffix(1_000))")
        #expect(page.body.contains("broker rejects show 1000") && page.body.utf8.count < 60_000)
    }

    @Test func `pages that are asked for at once all have their lists`() throws {
        try skip(#"[{"id": "x"}]"#, id: "a")
        let http = http
        let statuses = Mutex<[Int]>([])
        DispatchQueue.concurrentPerform(iterations: 40) { number in
            let answer = try? http.get(number.isMultiple(of: 2) ? "/rejected" : "/rejected/1000")
            statuses.withLock { $0.append(answer?.status ?? 0) }
        }
        #expect(statuses.withLock { $0 } == Array(repeating: 200, count: 40))
    }
}
