import Foundation
import Testing

/// `broker console`, as a browser sees it.
@Suite(.timeLimit(.minutes(5))) struct ConsoleTests {
    static let model = """
        {"entities": {
          "Employee": {"identity": "id", "description": "Those who work here",
            "attributes": {"id": "integer64", "name": "string", "salary": {"type": "decimal", "description": "euros"}},
            "relationships": {"department": {"entity": "Department", "inverse": "employees"}, "badge": {"entity": "Badge"}}},
          "Department": {"identity": "code", "identityGuessed": true,
            "attributes": {"code": {"type": "string", "description": "3 of 3 values differ."}},
            "relationships": {"employees": {"entity": "Employee", "toMany": true, "inverse": "department"}}},
          "Badge": {"identity": ["series", "number"], "attributes": {"series": "string", "number": "integer64"}},
          "Visit": {"attributes": {"page": "string"}, "relationships": {"employee": {"entity": "Employee"}}}}}
        """

    /// Names that a page must show and not obey.
    static let hostile = "<script>hacked=1</script>\"'\u{202E}"

    static let records = """
        [{"id": 1, "name": "Ada", "salary": 12.50, "department": {"code": "R&D"}, "badge": {"series": "a b", "number": 7}},
         {"id": 2, "name": "<script>hacked=1</script>\\"'\\u0000\\u202e", "department": "R&D"},
         {"id": 3, "name": "\(String(repeating: "x", count: 1 << 20))", "department": {"code": "<b>"}}]
        """

    /// Records that a job skips: 3000, of the object 1, and 3001.
    static let rejected = """
        [{"id": 1, "name": "<b>Ada", "salary": "<script>hacked=1</script>\\"'\\u0000\\u202e"},
         {"id": "x", "name": "\(String(repeating: "y", count: 20_000))"}]
        """

    /// A server with these objects, rejected records, a job that failed and one with a hostile id.
    static func programs() throws -> Programs {
        let programs = try Programs()
        try programs.write(model, to: "model.json")
        _ = try programs.startServer()
        let submit = ["submit", "--socket", "broker.sock", "--entity"]
        #expect(try programs.run("broker", submit + ["Employee", "--id", "first"], input: records).status == 0)
        let visits = #"[{"page": "/a", "employee": 1}, {"page": "/b", "employee": 1}]"#
        #expect(try programs.run("broker", submit + ["Visit", "--id", "visits"], input: visits).status == 0)
        let skipping = submit + ["Employee", "--id", "skipped", "--on-invalid", "skip"]
        #expect(try programs.run("broker", skipping, input: rejected).status == 3)
        #expect(
            try programs.run("broker", submit + ["Employee", "--id", "<b>bad"], input: #"{"id": "x"}"#).status == 1)
        return programs
    }

    /// The pages of a console, with its cookie.
    static func open(_ programs: Programs, _ arguments: String = "--socket broker.sock") throws -> RawHTTP {
        let address = try programs.startPages("console \(arguments) --listen 127.0.0.1:0 --no-open").address
        let parts = try #require(address.firstMatch(of: /^http:\/\/(127.0.0.1:(\d+))\/\?token=([0-9a-f]{32})$/))
        let port = try #require(UInt16(parts.2))
        let headers = ["Host": String(parts.1), "Cookie": "broker-\(port)=\(parts.3)", "Origin": "http://\(parts.1)"]
        return RawHTTP(place: .port(port), headers: headers)
    }

    private static func expectGuarded(_ answer: RawHTTP.Answer) {
        #expect(answer.headers["content-security-policy"]?.hasPrefix("default-src 'none'; style-src 'self'; ") == true)
        #expect(answer.headers["x-content-type-options"] == "nosniff" && answer.headers["cache-control"] == "no-store")
        #expect(answer.headers["referrer-policy"] == "no-referrer")
        #expect(
            !answer.body.contains("<script>") && !answer.body.contains("style=") && !answer.body.contains(" onclick"))
        #expect(!answer.body.unicodeScalars.contains { $0 == "\u{0}" || $0 == "\u{202E}" })
    }

    private static let rejectedPages: [(String, [String])] = [
        ("/", ["Jobs skipped records: 2. <a href=\"/rejected\">"]),
        ("/jobs/skipped-1", ["href=\"/rejected?job=skipped-1\""]),
        ("/rejected", ["<h1>Rejected</h1>", "/rejected/3000", "/jobs/skipped-1", "invalidValue at salary: "]),
        ("/rejected?entity=Employee&job=skipped-1", ["/rejected/3001", "value=\"skipped-1\"", "All rejected records"]),
        ("/rejected?entity=Visit", ["No such record is kept."]),
        ("/rejected?before=3001", ["/rejected/3000", "Newest"]),
        (
            "/rejected/3000",
            [
                "<code>/salary</code>", "&quot;salary&quot;: <mark>&quot;&lt;script&gt;", "  &quot;id&quot;: 1,\n",
                "stored object", "/data/Employee/object?key=1", "/jobs/skipped-1",
            ]
        ),
        ("/rejected/3001", ["<mark>&quot;x&quot;</mark>", "yyy…", "broker rejects show 3001"]),
    ]

    @Test func `all pages are there, and are guarded`() throws {
        let programs = try Self.programs()
        let http = try Self.open(programs)
        let key = "%7B%22series%22%3A%22a%20b%22%2C%22number%22%3A7%7D"
        let pages: [(String, [String])] = [
            ("/", ["<h1>Now</h1>", "Latency p99", "store.sqlite"]),
            ("/jobs", ["/jobs/%3Cb%3Ebad-1", "&lt;b&gt;bad-1", "invalidValue", "at /json/0/id"]),
            ("/jobs?code=invalidValue", ["&lt;b&gt;bad-1"]), ("/jobs?code=busy", ["No job has failed."]),
            ("/jobs/%3Cb%3Ebad-1", ["<td>invalidValue</td>", "<code>/json/0/id</code>"]),
            ("/jobs/first-1", ["Committed", "<a href=\"/data/Employee\">Employee</a></th><td class=n>3</td>"]),
            ("/clients", ["<h1>Clients</h1>", ">broker console<div class=m>connection ", "</th><td class=n>0</td>"]),
            ("/data", ["Those who work here", "(a guess)", "<svg", "class=edge"]),
            (
                "/data/Employee",
                [
                    "Objects 1 to 3", "&lt;script&gt;hacked=1&lt;/script&gt;&quot;&#39;\\u{0}\\u{202E}", "xxx…",
                    "R&amp;D",
                ]
            ),
            ("/data/Employee?where=salary%20%3E%2012", ["Objects 1 to 1", ">Ada<", "12.5"]),
            ("/data/Employee?where=salry%20%3E%2012", ["role=alert", "invalidPredicate", "salary"]),
            ("/data/Employee?sort=-id", ["id ▼"]),
            ("/data/Department", ["is a guess", "3 of 3 values differ."]),
            (
                "/data/Employee/object?key=1",
                ["12.5", "euros", "key=%22R%26D%22", "Visit with this employee: 2", "key=\(key)"]
            ),
            ("/data/Employee/object?key=3", ["Cut: the value has 1 MiB"]),
            ("/data/Employee/object?key=9", ["There is no such object"]),
            ("/data/Department/object?key=%22R%26D%22", ["employees ⇉ Employee: 2", "key=1"]),
            ("/data/Employee?of=department&key=%22R%26D%22", ["Objects 1 to 2", "Only objects with department"]),
            ("/data/Badge/object?key=\(key)", ["Employee with this badge: 1"]),
            ("/data/Visit", ["Objects 1 to 2", "/data/Visit/object?key=2"]), ("/data/Visit/object?key=2", ["/b"]),
            ("/feed", ["first-1", "3 inserted"]), ("/style.css", ["prefers-color-scheme"]), ("/icon.svg", ["<svg"]),
        ]
        for (path, parts) in pages + Self.rejectedPages {
            let answer = try http.get(path)
            #expect(answer.status == 200, "\(path)")
            for part in parts {
                #expect(answer.body.contains(part), "\(path) lacks \(part): \(answer.body.prefix(3_000))")
            }
            Self.expectGuarded(answer)
            #expect(answer.body.utf8.count < 60_000, "\(path)")
        }
        for path in [
            "/nothing", "/data/Nothing", "/data/Employee/x", "/jobs/a/b", "/live/x", "/data/Employee/export?format=xml",
            "/rejected/9",
            "/rejected/x", "/rejected/3000/x",
        ] {
            let answer = try http.get(path)
            #expect(answer.status == 404, "\(path)")
            Self.expectGuarded(answer)
        }
        #expect(try http.get("/data/Employee/object?key=%7B").status == 500)
        #expect(try http.get("/%zz").status == 400)
    }

    @Test func `what is shown is exported, as CSV and NDJSON`() throws {
        let programs = try Self.programs()
        let http = try Self.open(programs)
        let csv = try http.get("/data/Employee/export?format=csv&where=id%20%3C%203&sort=-id")
        #expect(csv.headers["content-type"] == "text/csv; charset=utf-8")
        #expect(csv.headers["content-disposition"] == "attachment; filename=objects.csv")
        #expect(csv.body.contains("id,name,salary,department,badge\r\n2,"))
        #expect(
            csv.body.contains("\r\n1,Ada,12.50,R&D,\"{\"\"series\"\":\"\"a b\"\",\"\"number\"\":7}\"\r\n"),
            "\(csv.body.debugDescription)")
        let lines = try http.get(
            "/data/Employee/export?format=ndjson&of=department&key=%22R%26D%22&where=id%20%3D%3D%201")
        #expect(
            lines.body.contains(#"{"id":1,"name":"Ada","salary":12.50,"#) && !lines.body.contains("hacked"),
            "\(lines.body)")
        // An export that fails is no whole file: the last chunk is missing.
        #expect(try !http.get("/data/Employee/export?format=csv&where=nonsense").body.hasSuffix("0\r\n\r\n"))
    }

    @Test func `only the browser that was given the address gets pages`() throws {
        let programs = try Self.programs()
        let http = try Self.open(programs)
        let cookie = try #require(http.headers["Cookie"])
        let token = try #require(cookie.split(separator: "=").last)
        let login = try http.get("/?token=\(token)", ["Cookie": ""])
        #expect(login.status == 303 && login.headers["location"] == "/")
        #expect(login.headers["set-cookie"] == "\(cookie); Path=/; HttpOnly; SameSite=Strict")
        for headers in [["Cookie": ""], ["Cookie": "broker-1=\(token)"], ["Host": "evil.example"], ["Host": ""]] {
            for path in ["/", "/data/Employee", "/live/now", "/style.css", "/data/Employee/export?format=csv"] {
                let answer = try http.get(path, headers)
                #expect(answer.status == 403 && !answer.body.contains("Ada"), "\(headers) \(path)")
            }
        }
        for method in ["PUT", "DELETE", "OPTIONS", "HEAD"] { #expect(try http.send(method, "/").status == 405) }
        // It only reads.
        for path in ["/pause", "/delete", "/cancel", "/kick", "/rejected/retry", "/rejected/drop"] {
            #expect(try http.post(path, ["form": "x"]).status == 403)
        }
        for path in ["/data/Employee/object?key=1", "/rejected", "/rejected/3000"] {
            #expect(try !http.get(path).body.contains("<form method=post"))
        }
        let refused = try programs.run("broker", ["console", "--listen", "0.0.0.0:8080"])
        #expect(
            refused.status == 2 && refused.complaints.contains("other machines could read the store there"),
            "\(refused)")
    }

    @Test func `with allow-write, forms pause, cancel, kick and delete`() throws {
        let programs = try Self.programs()
        let http = try Self.open(programs, "--socket broker.sock --allow-write")
        let form = try #require(try http.get("/").body.firstMatch(of: /name=form value="([0-9a-f]{32})"/)?.1)
        func post(_ path: String, _ fields: [String: String] = [:], _ headers: [String: String] = [:]) throws
            -> RawHTTP.Answer
        {
            try http.post(path, fields.merging(["form": String(form)]) { one, _ in one }, headers)
        }
        func health() throws -> Int32 { try programs.run("broker", ["health", "--socket", "broker.sock"]).status }
        for (fields, headers) in [
            (["form": "x"], [:]), ([:], ["Origin": "http://evil.example"]), ([:], ["Origin": "null"]),
            ([:], ["Origin": "null", "Sec-Fetch-Site": "cross-site"]),
        ] as [([String: String], [String: String])] { #expect(try post("/pause", fields, headers).status == 403) }
        #expect(try health() == 0)
        #expect(try post("/pause", [:], ["Origin": "null", "Sec-Fetch-Site": "same-origin"]).status == 303)
        #expect(try health() == 6)
        #expect(try http.get("/").body.contains("role=alert>paused: "))
        // A job that waits is seen and cancelled.
        let job = try programs.start(
            "'\(programs.executable("broker").path)' delete Visit --socket broker.sock --where TRUEPREDICATE --id doomed"
        )
        while try !http.get("/jobs").body.contains("name=\"id\" value=\"doomed") {}
        let id = try #require(try http.get("/jobs").body.firstMatch(of: /name="id" value="(doomed[^"]*)"/)?.1)
        #expect(try post("/cancel", ["id": String(id)]).headers["location"] == "/jobs/\(id)")
        #expect(try post("/resume").status == 303)
        job.waitUntilExit()
        #expect(try health() == 0 && http.get("/data/Visit").body.contains("Objects 1 to 2"))

        let watch = try programs.start("'\(programs.executable("broker").path)' watch --socket broker.sock")
        while try !http.get("/clients").body.contains(">broker watch<") {}
        let row = try #require(
            try http.get("/clients").body.firstMatch(of: />broker watch<div class=m>connection (\d+)/)?.1)
        #expect(try post("/kick", ["connection": String(row)]).headers["location"] == "/clients")
        while try http.get("/clients").body.contains("connection \(row),") {}
        #expect(try post("/kick", ["connection": String(row)]).body.contains("No other connection is that one"))
        #expect(try post("/kick", ["connection": "x"]).status == 404)
        watch.terminate()

        let department = ["entity": "Department", "key": "\"R&D\""]
        let trial = try post("/delete", department)
        #expect(trial.body.contains("What would be done") && trial.body.contains("Nothing has been changed yet."))
        #expect(try http.get("/data/Employee/object?key=1").body.contains("key=%22R%26D%22"))
        let done = try post("/delete", department.merging(["confirmed": "yes"]) { $1 })
        #expect(done.body.contains("What was done"))
        for (entity, cells) in [("Department", "1</td><td class=n>0"), ("Employee", "0</td><td class=n>2")] {
            #expect(done.body.contains(">\(entity)</a></th><td class=n>\(cells)</td>"), "\(done.body)")
        }
        #expect(try http.get("/data/Department/object?key=%22R%26D%22").body.contains("There is no such object"))
        #expect(try post("/delete", ["entity": "None", "key": "1"]).status == 404)
    }

    @Test func `a store without a server has data pages alone, also while a server has it`() throws {
        let programs = try Self.programs()
        let http = try Self.open(programs, "--store store.sqlite")
        #expect(try http.get("/").headers["location"] == "/data")
        #expect(try http.get("/data").body.contains("<svg") && http.get("/data/Employee").body.contains(">Ada<"))
        for path in ["/jobs", "/rejected", "/clients", "/feed", "/live/now"] {
            #expect(try http.get(path).body.contains("There is no server"))
        }
    }

    @Test func `a Unix socket is for its user alone, and goes with the console`() throws {
        let programs = try Self.programs()
        let file = programs.path("console.sock")
        for _ in 0..<2 {
            let pages = try programs.startPages("console --socket broker.sock --listen unix:console.sock")
            var status = stat()
            #expect(lstat(file, &status) == 0 && status.st_mode & 0o777 == 0o600)
            let token = try #require(pages.address.split(separator: "=").last)
            let http = RawHTTP(
                place: .unix(file), headers: ["Host": "localhost", "Cookie": "broker-localhost=\(token)"])
            #expect(try http.get("/data/Employee").body.contains(">Ada<"))
            #expect(
                try programs.run("broker", ["console", "--listen", "unix:console.sock"]).complaints.contains(
                    "Another process listens"))
            pages.process.terminate()
            pages.process.waitUntilExit()
            #expect(access(file, F_OK) != 0)
            // One that was left behind is replaced.
            _ = try programs.shell("socat UNIX-LISTEN:console.sock,unlink-close=0 /dev/null & sleep 0.3; kill -9 $!")
        }
        try programs.write("mine", to: "console.sock")
        #expect(
            try programs.run("broker", ["console", "--listen", "unix:console.sock"]).complaints.contains("is no socket")
        )
        #expect(try String(contentsOfFile: file, encoding: .utf8) == "mine")
    }

    @Test func `a hundred live pages are one reader for the server, and see what happens`() throws {
        let programs = try Self.programs()
        let http = try Self.open(programs)
        let cookie = try #require(http.headers["Cookie"])
        let host = try #require(http.headers["Host"])
        for number in 0..<100 {
            let page = ["now", "jobs", "feed"][number % 3]
            _ = try programs.start(
                "curl --silent --no-buffer --header 'Cookie: \(cookie)' http://\(host)/live/\(page) --output live-\(number)"
            )
        }
        func live(_ number: Int) -> String {
            (try? String(contentsOfFile: programs.path("live-\(number)"), encoding: .utf8)) ?? ""
        }
        while (0..<100).contains(where: { live($0).isEmpty }) { usleep(10_000) }
        let stats = try programs.run("broker", ["stats", "--socket", "broker.sock"]).output
        let open = try #require(stats.firstMatch(of: /connections.open (\d+)/).flatMap { Int($0.1) })
        // Of the console: one for measurements, one for the feed, one for objects; and this command's.
        #expect(open <= 4 && stats.contains("\nsubscriptions 1\n"), "\(stats)")
        let submit = ["submit", "--socket", "broker.sock", "--entity", "Visit", "--id", "seen"]
        #expect(try programs.run("broker", submit, input: #"{"page": "/c"}"#).status == 0)
        while !live(2).contains("seen-1") || !live(98).contains("seen-1") { usleep(10_000) }
        for line in live(98).split(separator: "\n") { #expect(line.hasPrefix("data: ")) }
    }

    @Test func `a console begins without a server, and says when it comes and goes`() throws {
        let programs = try Programs()
        let http = try Self.open(programs)
        #expect(try http.get("/").body.contains("role=alert>unreachable: "))
        let data = try http.get("/data")
        #expect(data.status == 503 && data.body.contains("The server does not answer"))
        let server = try programs.startServer()
        while try http.get("/").body.contains("role=alert") { usleep(50_000) }
        #expect(try http.get("/data").status == 200)
        kill(server.processIdentifier, SIGKILL)
        while try !http.get("/").body.contains("role=alert>unreachable: ") { usleep(50_000) }
        #expect(try http.get("/").body.contains("store.sqlite"))
    }
}
