import Foundation
import TestSupport
import Testing

/// The database of a running server is damaged.
@Suite(.timeLimit(.minutes(5))) struct DamageTests {
    @Test func `a server whose database is damaged ends by itself, and sends no outcome that is unknown`() throws {
        let programs = try Programs()
        let name = String(repeating: "x", count: 1_000)
        let records = (0..<2_000).map { "{\"id\": \($0), \"name\": \"\(name)\"}" }.joined(separator: ",")
        try programs.write("[\(records)]", to: "employees.json")
        let loaded = try programs.run(
            "broker",
            ["submit", "--store", "store.sqlite", "--model", "model.json", "--entity", "Employee", "employees.json"])
        #expect(loaded.status == 0, "\(loaded.complaints)")
        try programs.write("", to: "log")
        let log = try FileHandle(forWritingTo: URL(fileURLWithPath: programs.path("log")))
        let server = try programs.startServer(complaints: log)
        // Its leaves, none of which the server has read.
        let store = try FileHandle(forUpdating: URL(fileURLWithPath: programs.path("store.sqlite")))
        let size = try store.seekToEnd()
        #expect(size > 2_000_000)
        try store.seek(toOffset: size / 4 / 8192 * 8192)
        try store.write(contentsOf: Data(repeating: 0xA5, count: Int(size / 2)))
        try store.close()
        let client = try RawClient(programs.path("broker.sock"))
        #expect(try client.ask(#"{"type": "ping"}"#).type == "pong")
        try client.send(#"{"id": "a", "entity": "Employee", "json": {"id": 1000, "name": "y"}}"#)
        #expect(try client.receive() == nil)
        server.waitUntilExit()
        #expect(server.terminationReason == .exit)
        #expect(server.terminationStatus == 1)
        #expect(!FileManager.default.fileExists(atPath: programs.path("broker.sock")))
        let lines = try String(contentsOfFile: programs.path("log"), encoding: .utf8).split(separator: "\n")
        let critical = lines.filter { $0.contains(" critical ") }
        #expect(critical.count == 1, "\(lines)")
        #expect(critical.first?.contains("The store has failed") == true)
        #expect(critical.first?.contains("store.sqlite is damaged") == true)
    }
}
