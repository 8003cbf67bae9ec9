import Foundation
import Testing

/// `broker exporter`, as Prometheus and probes see it.
@Suite(.timeLimit(.minutes(5))) struct ExporterTests {
    @Test func `the exporter serves the measurements, and says when the server is gone`() throws {
        let programs = try Programs()
        let exporter = try programs.startPages("exporter --socket broker.sock --listen 127.0.0.1:0 --timeout 1s")
        let port = try #require(UInt16(exporter.address.firstMatch(of: /^http:\/\/127.0.0.1:(\d+)\/metrics$/)?.1 ?? ""))
        let http = RawHTTP(place: .port(port), headers: ["Host": "127.0.0.1"])
        // It begins before the server does.
        let down =
            "# HELP broker_up 1 while the server answers.\n# TYPE broker_up gauge\nbroker_up{instance=\"broker\"} 0\n"
        let first = try http.get("/metrics")
        #expect(first.status == 200 && first.body == down, "\(first)")
        let probe = try http.get("/healthz")
        #expect(probe.status == 503 && probe.body.hasPrefix("unreachable: "), "\(probe)")

        let server = try programs.startServer()
        let metrics = try http.get("/metrics")
        #expect(metrics.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8")
        let lines = metrics.body.split(separator: "\n").filter { !$0.hasPrefix("#") }
        #expect(
            lines.first?.contains(/^broker_up\{instance="broker",store="\/[^"]+store.sqlite"\} 1$/) == true,
            "\(lines[0])")
        #expect(lines.count > 100)
        for line in lines { #expect(line.contains(/^\w+\{instance="broker",store="[^"]+"[,}]/), "\(line)") }
        let healthy = try http.get("/healthz")
        #expect(healthy.status == 200 && healthy.body.hasPrefix("serving: up "), "\(healthy)")
        #expect(try http.get("/healthz?format=json").body.hasPrefix(#"{"state":"serving","status":0"#))
        _ = try programs.run("broker", ["admin", "pause", "--socket", "broker.sock"])
        #expect(try http.get("/healthz").status == 503)
        #expect(try http.get("/other").status == 404)
        #expect(try http.send("DELETE", "/metrics").status == 405)

        kill(server.processIdentifier, SIGKILL)
        server.waitUntilExit()
        let gone = try http.get("/metrics").body
        #expect(
            gone.contains(/\nbroker_up\{instance="broker",store="[^"]+"\} 0\n$/) && !gone.contains("broker_info"),
            "\(gone)")
        // A server that hangs is no server.
        let hanging = try programs.startServer()
        kill(hanging.processIdentifier, SIGSTOP)
        defer { kill(hanging.processIdentifier, SIGCONT) }
        #expect(try http.get("/metrics").body.hasSuffix(" 0\n"))
    }

    @Test func `the exporter refuses wrong arguments, and an address that is taken`() throws {
        let programs = try Programs()
        for wrong in ["--listen nowhere", "--listen 1.2.3:4", "--store a.sqlite", "--listen unix:"] {
            #expect(
                try programs.run("broker", ["exporter"] + wrong.split(separator: " ").map(String.init)).status == 2,
                "\(wrong)")
        }
        let exporter = try programs.startPages("exporter --listen 127.0.0.1:0 --instance x")
        let address = try #require(exporter.address.firstMatch(of: /127.0.0.1:\d+/)?.0)
        let second = try programs.run("broker", ["exporter", "--listen", String(address)])
        #expect(second.status == 1 && second.complaints.contains("Nothing can be served there"), "\(second)")
    }
}
