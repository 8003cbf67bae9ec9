import Broker
import BrokerModel
import Foundation
import Testing

@testable import BrokerConsole

/// Pages of values that nobody would choose, without a server.
@Suite(.timeLimit(.minutes(5))) struct PageTests {
    private static let hostile = "<script>alert(1)</script>\"' onload=x \u{0}\u{202E}"

    private static func object(_ members: KeyValuePairs<String, ModelValue>) -> ModelValue {
        ModelValue(.object(members.map { .init($0.key, at: .unknown, $0.value) }), at: .unknown)
    }

    private static func text(of file: String) throws -> String {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("../..")
        return try String(contentsOf: root.appendingPathComponent(file), encoding: .utf8)
    }

    private static func statistics(_ changes: [(String, String)] = []) throws -> Statistics {
        var text = try Self.text(of: "protocol/examples/stats.json")
        for (old, new) in changes { text = text.replacing(old, with: new) }
        return try RawJSON(text).decode()
    }

    private static func expectHarmless(_ html: HTML) {
        #expect(!html.text.contains("<script>") && !html.text.contains("\" onload") && !html.text.contains("' onload"))
        #expect(!html.text.unicodeScalars.contains { $0 == "\u{0}" || $0 == "\u{202E}" })
    }

    @Test func `all that a browser loads for a page of a full hour is below 60 KB`() throws {
        let points = (0..<Watcher.capacity).map { number in
            let value = Double(number * 7919 % 1009) * 1.37
            return Watcher.Point(jobs: value, records: value, inFlight: value, p99: value, wal: value, memory: value)
        }
        let statistics = try Self.statistics()
        let reading = Watcher.Reading(health: Health(statistics), statistics: statistics)
        let page = NowPage(reading: reading, points: points, forms: Forms(token: Gate.random()))
        let frame = Frame(subject: "broker.sock").page("Now", at: .now, live: "/live/now", page.html)
        let embedded = Assets.all.map(\.utf8.count).reduce(0, +)
        #expect(embedded < 20_000)
        #expect(embedded + frame.text.utf8.count < 60_000)
        let svg = try #require(page.html.text.firstMatch(of: /class=line d="([^"]*)"/)?.1)
        #expect(svg.count > 500 && svg.wholeMatch(of: /[ML0-9. ]+/) != nil)
    }

    @Test func `a state that is not serving is a red line, in the words of health`() throws {
        let waiting = try Self.statistics([("Another program has locked the store.", #"<b>\" & locked"#)])
        let page = NowPage(
            reading: Watcher.Reading(health: Health(waiting), statistics: waiting), points: [], forms: nil
        ).html
        #expect(page.text.contains("<p class=alert role=alert>waiting: &lt;b&gt;&quot; &amp; locked ("))
        let serving = try Self.statistics([
            (#""state": "waiting", "cause": "Another program has locked the store.""#, #""state": "serving""#),
            (#""successful": false"#, #""successful": true"#),
        ])
        let reading = Watcher.Reading(health: Health(serving), statistics: serving)
        #expect(!NowPage(reading: reading, points: [], forms: nil).html.text.contains("alert"))
        let lost = Watcher.Reading(health: Health(.unreachable, "gone"), statistics: nil)
        #expect(NowPage(reading: lost, points: [], forms: nil).html.text.contains("unreachable: gone"))
    }

    @Test func `what deserves attention is on the page at the limits of the alerts, with what to do`() throws {
        let alerts = try Self.text(of: "protocol/operations/alerts.yml")
        func limit(_ pattern: String) throws -> Int {
            let match = try #require(try Regex(pattern + #"(\d+)"#).firstMatch(in: alerts), "\(pattern)")
            return try #require(Int(match[1].substring ?? ""))
        }
        let now: Int64 = 2_000_000_000_000
        let backup = Int64(try limit(#"broker_last_backup_timestamp_seconds > "#)) * 1_000
        let lag = try limit(#"min_over_time\(broker_log_lag_entries\[5m\]\) > "#)
        func signs(_ changes: [(String, String)]) throws -> String {
            let usual = [
                ("1772362800000", "\(now)"), (#""lag": 0"#, #""lag": \#(lag)"#), (#"{"count": 4,"#, #"{"count": 0,"#),
            ]
            return Signs(now: try Self.statistics(changes + usual), moment: now).html.map(\.text).joined()
        }
        #expect(try signs([]) == "")
        let waits = try limit("broker_oldest_job_age_seconds > ") * 1_000
        let slow = try limit(#"broker_job_duration_seconds_bucket\[10m\]\)\)\) > "#) * 1_000_000
        let disk = try limit("broker_store_free_disk_bytes < ")
        let wal = try limit("broker_wal_bytes > ")
        let cases: [(old: String, atLimit: String, beyond: String, words: String)] = [
            (
                #""oldestMilliseconds": 140"#, #""oldestMilliseconds": \#(waits)"#,
                #""oldestMilliseconds": \#(waits + 1)"#, "/jobs"
            ),
            (
                #""completed": 40, "failed": 1,"#, #""completed": 90, "failed": 10,"#,
                #""completed": 89, "failed": 10,"#, "/clients"
            ),
            (
                #"{"count": 4, "bytes": 1800, "omitted": 0}"#, #"{"count": 0, "bytes": 0, "omitted": 2}"#,
                #"{"count": 1, "bytes": 9, "omitted": 2}"#, "2 more were not kept"
            ),
            (#""p99": 40000,"#, #""p99": \#(slow),"#, #""p99": \#(slow + 1),"#, "in which stage"),
            ("225485783040", "\(disk)", "\(disk - 1)", "make room"),
            ("16875552", "\(wal)", "\(wal + 1)", "reader"),
            ("1772362800000", "\(now - backup)", "\(now - backup - 1)", "<code>broker backup</code>"),
            (
                #""open": 3, "maximum": 1024"#, #""open": 9, "maximum": 10"#, #""open": 10, "maximum": 10"#,
                "--connections"
            ),
            (#""lag": 0"#, #""lag": \#(lag)"#, #""lag": \#(lag + 1)"#, "behind the shared log"),
        ]
        for (old, atLimit, beyond, words) in cases {
            #expect(try signs([(old, atLimit)]) == "", "\(atLimit)")
            let html = try signs([(old, beyond)])
            #expect(html.contains(words) && html.matches(of: /class=note/).count == 1, "\(beyond): \(html)")
        }
        let uptime = (#""uptimeMilliseconds": 86400000"#, #""uptimeMilliseconds": \#(backup + 1)"#)
        #expect(try signs([(#", "backedUpAt": 1772362800000"#, ""), uptime]).contains("for two days"))
        #expect(try signs([(#", "backedUpAt": 1772362800000"#, "")]) == "")
    }

    @Test func `the age of the newest backup, and replicas where there are any, are on the page`() throws {
        func page(_ changes: [(String, String)]) throws -> String {
            let statistics = try Self.statistics(changes)
            let reading = Watcher.Reading(health: Health(statistics), statistics: statistics)
            return NowPage(reading: reading, points: [], forms: nil, moment: 1_772_366_400_000).html.text
        }
        let replicas = #""replicas": {"r1": {"time": 1795766385808, "durable": 9036, "backup": 0}}"#
        let others =
            #""replicas": {"r1": {"time": 1772366399000, "durable": 9036, "backup": 9000}, "<r2>": {"time": 1772280000000, "durable": 36, "backup": 0}}"#
        let html = try page([(replicas, others)])
        #expect(html.contains("Newest backup</dt><dd>1 h<small>ago"))
        #expect(html.contains("this server)</span></th><td class=n>0</td><td class=n>36</td><td class=n>1 s ago"))
        #expect(html.contains("&lt;r2&gt;</th><td class=n>9,000</td><td class=n>no backup</td><td class=n>1 d ago"))
        let alone = try page([(replicas, #""replicas": {}"#), (#", "backedUpAt": 1772362800000"#, "")])
        #expect(alone.contains("Newest backup</dt><dd>never<small>") && !alone.contains("Replicas"))
    }

    @Test func `clients that fail or do not read come first, and few enough for a page`() throws {
        func client(_ number: Int, _ more: String = "") throws -> ModelValue {
            try ModelValue(
                RawJSON(
                    #"{"connection": \#(number), "client": "c\#(number)", "user": 0, "process": 7, "jobs": 9\#(more)}"#)
            )
        }
        let error = #""error": {"code": "invalidValue", "message": "<i>no number"}"#
        let few = try [
            client(1), client(2, #", "unreadBytes": 5000"#), client(3, #", "failed": 2, "failedAt": 1000, \#(error)"#),
            client(4, #", "failed": 1, "failedAt": 2000, \#(error)"#),
        ]
        let html = ClientsPage(clients: few, forms: Forms(token: "t")).html.text
        let order = html.matches(of: /name="connection" value="(\d+)"/).map { String($0.1) }
        #expect(order == ["4", "3", "2", "1"])
        #expect(
            html.contains("invalidValue: &lt;i&gt;no number") && html.contains("4.9 KiB") && !html.contains("are shown")
        )
        #expect(!ClientsPage(clients: few, forms: nil).html.text.contains("<form"))
        let many = try (0..<1_000).map { number in
            try client(
                number, #", "failedAt": 1, "error": {"code": "x", "message": "\#(String(repeating: "y", count: 999))"}"#
            )
        }
        let page = ClientsPage(clients: many, forms: Forms(token: Gate.random())).html.text
        #expect(
            page.contains("50 of 1,000 are shown")
                && page.utf8.count + Assets.all.map(\.utf8.count).reduce(0, +) < 60_000)
    }

    @Test func `ids, messages and names are text`() throws {
        let id = ModelValue.text(Self.hostile)
        let job = Self.object([
            "id": id, "stage": id, "error": Self.object(["message": id, "path": id]),
            "entities": ModelValue(.array([id]), at: .unknown),
        ])
        let lists = JobLists(forms: Forms(token: "t"))
        for html in [lists.table(of: .running, [job]), lists.table(of: .failed, [job]), lists.table(of: .slow, [job])] {
            Self.expectHarmless(html)
            #expect(html.text.contains("&lt;script&gt;"))
        }
        let commit = Commit(sequence: 1, id: JobID(Self.hostile), changes: [Self.hostile: .init(inserted: 1)])
        Self.expectHarmless(FeedPage(entries: [.init(commit: commit, seconds: nil)], fault: Self.hostile).html)
        let client = Self.object(["client": id, "role": id, "error": Self.object(["code": id, "message": id])])
        Self.expectHarmless(ClientsPage(clients: [client], forms: lists.forms).html)
        Self.expectHarmless(Frame(subject: Self.hostile).page(Self.hostile, at: nil, ""))
        Self.expectHarmless(EntityPage.value(id, cut: 100))
        Self.expectHarmless(EntityPage.link(Self.hostile, id))
    }

    @Test func `a record is shown with indentation, its faulty places marked, and cut where it is long`() throws {
        func shown(_ json: String, _ places: Set<String>, longest: Int = 1_000) throws -> (String, isCut: Bool) {
            let marked = MarkedJSON(try ModelValue(RawJSON(json)), at: places, longest: longest)
            return (marked.html.text, marked.isCut)
        }
        let json = #"{"a/b~":[1,{"<":"<b>"}],"":{},"c":[]}"#
        let (whole, isCut) = try shown(json, ["/a~1b~0/1/<", "/c", "", "/none"])
        let expected = """
            {
              &quot;a/b~&quot;: [
                1,
                {
                  &quot;&lt;&quot;: <mark>&quot;&lt;b&gt;&quot;</mark>
                }
              ],
              &quot;&quot;: {},
              &quot;c&quot;: <mark>[]</mark>
            }
            """
        #expect(whole == expected && !isCut)
        let hostile = Self.object([Self.hostile: ModelValue(.array([.text(Self.hostile)]), at: .unknown)])
        Self.expectHarmless(MarkedJSON(hostile, at: ["/\(Self.hostile)"], longest: 1_000).html)
        let deep = String(repeating: "[", count: 200) + String(repeating: "]", count: 200)
        for longest in [0, 1, 7, 100] {
            let (cut, isCut) = try shown(deep, ["/0", "/0/0"], longest: longest)
            #expect(isCut && cut.hasSuffix("</mark></mark>") == (longest > 5), "\(cut)")
            #expect(cut.replacing(/<.?mark>/, with: "").count == longest + 1)
        }
    }

    @Test func `the picture has each entity and one line for a relationship and its inverse`() throws {
        let text = try Self.text(of: "protocol/examples/model.json")
        let message = try ModelValue(RawJSON(text))
        let model = try ShownModel(RawJSON(try #require(message["model"]).json))
        #expect(model["Person"]?.attributes.first?.name == "code" && model["Person"]?.identity == ["code"])
        #expect(model["Team"]?.hasRowKey == true && model["Team"]?.isIdentityGuessed == true)
        let note = try ModelValue(RawJSON(#"{"parent_code": "A", "position": 1.0, "text": null}"#))
        let key = model["Note"]?.key(of: note)
        #expect(key?.json == #"{"parent_code":"A","position":1.0}"#)
        let picture = Diagram(model).html.text
        for entity in model.entities { #expect(picture.contains("<a href=\"/data/\(entity.name)\">")) }
        #expect(picture.matches(of: /class=edge/).count < model.entities.reduce(0) { $0 + $1.relationships.count })
        #expect(!picture.contains("style="))
        // A circle, and names of markup.
        let circle = #"""
            {"entities": {"A": {"relationships": {"b": {"entity": "B"}, "a": {"entity": "A"}}},
              "B": {"relationships": {"c": {"entity": "C"}}},
              "C": {"relationships": {"a": {"entity": "A"}, "none": {"entity": "D"}}},
              "<script>": {"attributes": {"\"><script>": {"type": "<script>"}}}}}
            """#
        let html = Diagram(try ShownModel(RawJSON(circle))).html
        Self.expectHarmless(html)
        #expect(html.text.matches(of: /class=edge/).count == 4)
        #expect(Diagram(try ShownModel(RawJSON("{}"))).html.text.contains("<svg"))
    }

    @Test func `JSON keeps the digits of numbers and the order of members`() throws {
        let text = #"{"b":1.50,"a":12345678901234567890123,"c":[true,null,"\u0000\"x"]}"#
        #expect(try ModelValue(RawJSON(text)).json == text)
    }
}
