import Broker
import Foundation
import Testing

@testable import BrokerConsole

/// Pages of values that nobody would choose, without a server.
@Suite(.timeLimit(.minutes(5))) struct PageTests {
    private static let hostile = "<script>alert(1)</script>\"' onload=x \u{0}\u{202E}"

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

    @Test func `clients that fail or do not read come first, and few enough for a page`() throws {
        func client(_ number: Int, _ more: String = "") throws -> JSONTree {
            try JSONTree(
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
        let id = JSONTree.string(Self.hostile)
        let job = JSONTree.object([
            .init(name: "id", value: id), .init(name: "stage", value: id),
            .init(name: "error", value: .object([.init(name: "message", value: id), .init(name: "path", value: id)])),
            .init(name: "entities", value: .array([id])),
        ])
        let lists = JobLists(forms: Forms(token: "t"))
        for html in [lists.table(of: .running, [job]), lists.table(of: .failed, [job]), lists.table(of: .slow, [job])] {
            Self.expectHarmless(html)
            #expect(html.text.contains("&lt;script&gt;"))
        }
        let commit = Commit(sequence: 1, id: JobID(Self.hostile), changes: [Self.hostile: .init(inserted: 1)])
        Self.expectHarmless(FeedPage(entries: [.init(commit: commit, seconds: nil)], fault: Self.hostile).html)
        let client = JSONTree.object([
            .init(name: "client", value: id), .init(name: "role", value: id),
            .init(name: "error", value: .object([.init(name: "code", value: id), .init(name: "message", value: id)])),
        ])
        Self.expectHarmless(ClientsPage(clients: [client], forms: lists.forms).html)
        Self.expectHarmless(Frame(subject: Self.hostile).page(Self.hostile, at: nil, ""))
        Self.expectHarmless(EntityPage.value(id, cut: 100))
        Self.expectHarmless(EntityPage.link(Self.hostile, id))
    }

    @Test func `the picture has each entity and one line for a relationship and its inverse`() throws {
        let text = try Self.text(of: "protocol/examples/model.json")
        let message = try JSONTree(RawJSON(text))
        let model = try ShownModel(RawJSON(try #require(message["model"]).json))
        #expect(model["Person"]?.attributes.first?.name == "code" && model["Person"]?.identity == ["code"])
        #expect(model["Team"]?.hasRowKey == true && model["Team"]?.isIdentityGuessed == true)
        let key = model["Note"]?.key(of: try JSONTree(RawJSON(#"{"parent_code": "A", "position": 1.0, "text": null}"#)))
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
        #expect(try JSONTree(RawJSON(text)).json == text)
    }
}
