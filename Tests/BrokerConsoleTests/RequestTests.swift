import Testing

@testable import BrokerConsole

/// What the service reads of a request, and where it listens.
@Suite(.timeLimit(.minutes(5))) struct RequestTests {
    @Test func `addresses are of this machine, or say that they are not`() {
        let local = ["127.0.0.1:8080", "127.8.9.1:1", "localhost:80", "[::1]:8080", "unix:/run/x.sock", "unix:x"]
        for text in local { #expect(ListenAddress(text)?.isLocal == true, "\(text)") }
        for text in ["0.0.0.0:80", "10.0.0.1:80", "[::]:80", "[fe80::1]:80"] {
            #expect(ListenAddress(text)?.isLocal == false, "\(text)")
        }
        let none = [
            "", "8080", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "host:80", "1.2.3:80", "[::1:80", "unix:",
        ]
        for text in none + ["unix:" + String(repeating: "x", count: 108)] {
            #expect(ListenAddress(text) == nil, "\(text)")
        }
        #expect(
            ListenAddress("[::1]:8080")?.description == "[::1]:8080"
                && ListenAddress("unix:/a")?.description == "unix:/a")
    }

    @Test func `paths and forms are decoded, and wrong ones refused`() {
        #expect(URLText.path("/data/A%2FB/%C3%A4") == ["data", "A/B", "ä"])
        #expect(URLText.path("/") == [] && URLText.path("/a+b") == ["a+b"])
        #expect(URLText.form("a=1&b=x+y%2B&a=2&c") == ["a": "2", "b": "x y+", "c": ""])
        for wrong in ["/%", "/%2", "/%zz", "/%FF"] { #expect(URLText.path(wrong) == nil, "\(wrong)") }
        #expect(URLText.form("a=%") == nil)
        let hostile = "<\"'&/\u{0}\u{202E} ä+%"
        let link = URLText.link(["data", hostile], ["key": hostile, "sort": nil])
        #expect(!link.contains { "<\"'&\u{0} ".contains($0) })
        let parts = link.split(separator: "?")
        #expect(URLText.path(String(parts[0])) == ["data", hostile] && URLText.form(parts[1]) == ["key": hostile])
    }
}
