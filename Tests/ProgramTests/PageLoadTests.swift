import TestSupport
import Foundation
import Synchronization
import Testing

/// `broker load` against a server that these tests start.
@Suite(.timeLimit(.minutes(5))) struct PageLoadTests {
    private let programs: Programs
    private static let store = ["--store", "s.sqlite", "--model", "model.json", "--entity", "Employee"]

    init() throws { programs = try Programs() }

    private func load(_ arguments: [String]) throws -> Programs.Result {
        try programs.run("broker", ["load"] + arguments)
    }

    private func ids() throws -> [String] {
        try Database(programs.path("s.sqlite")).rows("SELECT id FROM Employee ORDER BY id")
    }

    @Test func `pages that have not changed are not sent again, and a sync deletes what no page names`() throws {
        let pages = VersionedPages()
        pages.bodies.withLock { $0 = ["/1": #"[{"id": 1}, {"id": 2}]"#, "/2": #"[{"id": 3}]"#] }
        let server = try PageServer(pages.answer)
        defer { server.stop() }
        let arguments = Self.store + [server.url("/1")]
        for options in [[], ["--sync"]] {
            let first = try load(arguments + options)
            #expect(first.status == 0 && first.output.contains("3 records in "), "\(first)")
            #expect(first.output.contains("2 pages read, 0 of them unchanged"), "\(first)")
            #expect(server.taken().map { $0.fields["if-none-match"] } == [nil, nil])
            let second = try load(arguments + options)
            #expect(second.status == 0 && second.output == "2 pages read, 2 of them unchanged\n", "\(second)")
            #expect(server.taken().allSatisfy { $0.fields["if-none-match"] != nil })
        }
        pages.bodies.withLock { $0["/2"] = #"[{"id": 4}]"# }
        let added = try load(arguments)
        #expect(added.status == 0 && added.output.contains("2 pages read, 1 of them unchanged"), "\(added)")
        #expect(try ids() == ["1", "2", "3", "4"])
        let synced = try load(arguments + ["--sync"])
        #expect(synced.status == 0 && synced.output.contains("3 records in "), "\(synced)")
        #expect(try ids() == ["1", "2", "4"])
        // Another store gets all pages.
        try FileManager.default.removeItem(atPath: programs.path("s.sqlite"))
        let anew = try load(arguments + ["--sync"])
        #expect(anew.status == 0 && anew.output.contains("3 records in "), "\(anew)")
    }

    @Test func `a refusal for a time is waited for, and a body that ends early commits nothing of its page`() throws {
        let attempts = Mutex(0)
        let server = try PageServer { request in
            switch request.target {
            case "/a":
                let attempt = attempts.withLock { attempts in
                    attempts += 1
                    return attempts
                }
                return attempt < 3
                    ? PageServer.response(attempt == 1 ? 429 : 503, ["Retry-After: 0"])
                    : PageServer.response(200, [], #"{"next": "/b", "staff": [{"id": 1}]}"#)
            default: return PageServer.response(200, ["Content-Length: 90"], #"{"next": null, "staff": [{"id": 2}]}"#)
            }
        }
        defer { server.stop() }
        let result = try load(
            Self.store + [
                "--next", "next", "--root", "staff", "--retries", "2", "--max-wait", "10ms", server.url("/a"),
            ])
        #expect(result.status == 1 && result.complaints.contains("/b could not be read after 36 bytes"), "\(result)")
        #expect(result.complaints.contains("status 429. Trying again"), "\(result)")
        #expect(server.taken().map(\.target) == ["/a", "/a", "/a", "/b", "/b", "/b"])
        #expect(try ids() == ["1"])
    }

    @Test func `a load that a signal ends keeps its pages, and prints the command that goes on`() throws {
        let (isAsked, mayAnswer) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let server = try PageServer { request in
            guard request.target == "/2" else {
                return PageServer.response(200, [#"Link: </2>; rel="next""#, "ETag: \"1\""], #"[{"id": 1}]"#)
            }
            isAsked.signal()
            mayAnswer.wait()
            return PageServer.response(200, [], #"[{"id": 2}]"#)
        }
        defer { server.stop() }
        let load = try RunningSubmission(
            programs, command: "load", [server.url("/1")], to: ["--store", "s.sqlite", "--model", "model.json"])
        try #require(isAsked.wait(timeout: .now() + .seconds(Patience.seconds)) == .success)
        kill(load.process.processIdentifier, SIGINT)
        load.process.waitUntilExit()
        #expect(load.process.terminationStatus == 130)
        let words = try load.complaints().components(separatedBy: "broker: interrupted; to go on, run: ")
        try #require(words.count == 2 && words[0].isEmpty, "\(words)")
        #expect(words[1].hasSuffix(" load --store s.sqlite --model model.json --entity Employee \(server.url("/1"))\n"))
        #expect(try ids() == ["1"])
        for _ in 0..<2 { mayAnswer.signal() }
        #expect(try programs.shell(words[1]).status == 0)
        #expect(try ids() == ["1", "2"])
    }

    @Test func `a secret stays with its host, and redirections and loops lead nowhere else`() throws {
        let other = try PageServer { _ in PageServer.response(200, [], #"[{"id": 7}]"#) }
        defer { other.stop() }
        let away = other.url("/x")
        let server = try PageServer { request in
            switch request.target {
            case "/away": PageServer.response(302, ["Location: \(away)"])
            case "/round": PageServer.response(307, ["Location: /round"])
            case "/file": PageServer.response(302, ["Location: file:///etc/hostname"])
            case "/loop": PageServer.response(200, [#"Link: </loop>; rel="next""#], #"[{"id": 8}]"#)
            default: PageServer.response(200, ["Content-Type: text/html"], "<p>Sign in</p>")
            }
        }
        defer { server.stop() }
        try programs.write("Authorization: Bearer secret\n", to: "token")
        let options = Self.store + ["--retries", "0", "--header", "@\(programs.path("token"))"]
        #expect(try load(options + [server.url("/away")]).status == 0)
        #expect(server.taken().map { $0.fields["authorization"] } == ["Bearer secret"])
        #expect(other.taken().map { $0.fields["authorization"] } == [nil])
        for (target, reason) in [
            ("/file", "redirects to file:///etc/hostname, which is not followed"),
            ("/loop", "which was read before"), ("/in", "is a page of HTML"),
        ] {
            let result = try load(options + [server.url(target)])
            #expect(result.status == 1 && result.complaints.contains(reason), "\(result)")
        }
        _ = server.taken()
        #expect(try load(options + [server.url("/round")]).status == 1)
        #expect(server.taken().count == 21)
        let large = try load(options + ["--max-bytes", "5", server.url("/loop")])
        #expect(large.status == 1 && large.complaints.contains("more than 5 bytes"), "\(large)")
    }
}
