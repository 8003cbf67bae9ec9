import TestSupport
import Testing

/// Allocations of a server for its jobs, which the programs count with jemalloc (`stats`, `memory.allocations`). They are
/// stated here, so that a change that adds some is seen; only release builds have these numbers.
@Suite(.serialized, .timeLimit(.minutes(5)), .enabled(if: Programs.releaseFolder != nil)) struct AllocationTests {
    /// Allocations for each of so many messages, sent one after the other.
    private func allocations(of count: Int, _ message: (Int) -> String) throws -> Int {
        let programs = try Programs()
        _ = try programs.startServer()
        let client = try RawClient(programs.path("broker.sock"))
        func total() throws -> Int {
            try #require(Int(try client.ask(#"{"type": "stats"}"#)["memory.allocations"] ?? ""))
        }
        // Buffers that grow at first, and prepared statements.
        for number in 0..<100 { #expect(try client.ask(message(number)).type != "error") }
        let before = try total()
        for number in 0..<count { #expect(try client.ask(message(100 + number)).type != "error") }
        let each = (try total() - before) / count
        print("allocations: \(each)")
        return each
    }

    @Test func `a job of one record takes at most 60 allocations when it is alone`() throws {
        let each = try allocations(of: 2_000) {
            #"{"id": "job \#($0)", "entity": "Employee", "json": {"id": \#($0), "name": "E"}}"#
        }
        #expect(each <= 60)
    }

    @Test func `a job of 1,000 records takes at most 110 allocations`() throws {
        // jemalloc adds what a thread has requested when it refills the thread's cache, so few jobs are counted badly.
        let each = try allocations(of: 600) { job in
            let records = (0..<1_000).map { #"{"id": \#(job * 1_000 + $0), "name": "E"}"# }
            return #"{"id": "job \#(job)", "entity": "Employee", "json": [\#(records.joined(separator: ","))]}"#
        }
        #expect(each <= 110)
    }

    @Test func `a frame without a job takes at most 13 allocations`() throws {
        #expect(try allocations(of: 2_000) { _ in #"{"type": "ping"}"# } <= 13)
    }
}
