import BrokerJSON
import Foundation
import Synchronization
import TestSupport
import Testing

/// The effects of hostile clients on a server and on its other clients.
///
/// The goal is that each job and fetch of another client is answered within a second, and within two while single jobs do as much
/// work as a job may. It holds for release builds: scripts/test --release runs these tests with them, and reports where it is not
/// reached yet (protocol/promises.md, "Overload"). The memory limit holds for every build.
@Suite(.timeLimit(.minutes(5)), .serialized) struct FloodTests {
    /// Bytes of the server's memory: its budgets, and as much again for a build that is not optimized.
    private static let memory = 600 << 20
    /// The largest contents take a build that is not optimized half a minute: they are for CI.
    private static let floods = Flood.allCases.filter {
        Cases.areAll || Programs.releaseFolder != nil || !$0.hasLargestContents
    }

    /// The objects that a job of a flood concerns.
    private static var objects: Int { Programs.releaseFolder == nil ? 5_000 : 200_000 }

    /// A build that is not optimized takes long for each beside the largest contents.
    private static func jobs(beside flood: Flood) -> Int {
        if Programs.releaseFolder != nil { return 5 }
        return flood.hasLargestContents ? 1 : 2
    }

    /// Jobs and fetches of a client that waits for each. Returns the seconds of the slowest.
    private func slowest(_ client: RawClient, beside flood: Flood, _ programs: Programs) throws -> Double {
        var slowest = Duration.zero
        for number in 0..<Self.jobs(beside: flood) {
            let took = try ContinuousClock().measure {
                let answer = try client.ask(#"{"entity": "Employee", "json": [{"id": \#(number), "name": "E"}]}"#)
                #expect(answer.type == "completed", "\(answer.text)")
            }
            let read = try ContinuousClock().measure {
                // The fetches of this process wait for those of the flood, which is a part of it.
                guard !flood.isOfFetches else {
                    let fetch = ["fetch", "Employee", "--object", "\(number)", "--json", "--socket", "broker.sock"]
                    let result = try programs.run("broker", fetch)
                    #expect(result.status == 0 && result.output.contains(#""name":"E""#), "\(result)")
                    return
                }
                let fetch = #"{"type": "fetch", "entity": "Employee", "object": \#(number)}"#
                var answer = try client.ask(fetch)
                // A reload has come between.
                while flood == .reload, answer.code == "busy" { answer = try client.ask(fetch) }
                #expect(answer["objects.0.name"] == "E", "\(answer.text)")
            }
            slowest = max(slowest, took, read)
        }
        return slowest / .seconds(1)
    }

    @Test(arguments: floods)
    func `a client beside a flood is answered in time, and the server stays within its memory`(
        _ flood: Flood
    ) throws {
        let programs = try Programs()
        try programs.write(flood.model, to: "model.json")
        _ = try programs.startServer()
        let socket = programs.path("broker.sock")
        let client = try RawClient(socket)
        client.setPatience(seconds: 120)
        _ = try client.ask(#"{"id": "other", "entity": "Department", "json": [{"id": 1, "name": "A"}]}"#)
        if let preparation = flood.preparation(Self.objects) {
            #expect(try client.ask(preparation).type == "completed")
        }
        let flooding = try Flooding(flood, in: programs.folder, on: socket)
        flooding.waitUntilItFlows()
        let slowest = try slowest(client, beside: flood, programs)
        let sent = flooding.stop()
        let stats = try client.ask(#"{"type": "stats"}"#)
        let resident = stats["memory.residentBytes"].flatMap { Int($0) } ?? .max
        print("\(flood): \(sent), slowest job or fetch \(slowest) s, \(resident >> 20) MiB")
        #expect(sent.frames >= 3)
        if Programs.releaseFolder != nil { #expect(slowest < flood.patience, "\(slowest) s") }
        #expect(resident < Self.memory, "\(resident) bytes")
    }

    @Test
    func `a command is served beside idle connections that take all places, and a stop does not wait for fetches`()
        throws
    {
        let programs = try Programs()
        let server = try programs.startServer(["--connections", "100"])
        let socket = programs.path("broker.sock")
        let idle = try (0..<100).map { _ in try RawClient(socket) }
        for client in idle.prefix(40) { #expect(try client.ask(#"{"type": "ping"}"#).type == "pong") }
        #expect(try idle.last?.next().code == "busy")
        // The places of this process's user are taken, but for one of another process.
        #expect(try programs.run("broker", ["ping", "--socket", socket, "--timeout", "5"]).status == 0)
        let preparation = try #require(Flood.search.preparation(0))
        #expect(try idle[0].ask(preparation).type == "completed")
        for client in idle.prefix(20) {
            for message in Flood.search.messages(programs.folder) { try client.send(message) }
        }
        let took = try ContinuousClock().measure {
            server.terminate()
            for client in idle.prefix(20) { while try client.receive() != nil {} }
            server.waitUntilExit()
        }
        #expect(server.terminationStatus == 0)
        if Programs.releaseFolder != nil { #expect(took < .seconds(5), "\(took)") }
    }
}

/// The load of hostile clients while another client works: each connects, sends frames and reads nothing, until the
/// server does not take any more, and then comes again.
enum Flood: String, CaseIterable, Sendable {
    case hello, ping, stats, awaiting, fetch, cancel, checkpoint, reload, backup, progress, objects, oneID, nonsense
    case hostileText, largestContents, blankContents, emptyObjects, connections, deletions, search, sortedStream
    case ownedObjects, failingReplacements, replacedLinks, searches

    /// Frames that a connection sends before it goes; nil for as many as the server takes.
    var framesPerConnection: Int? {
        switch self {
        case .connections: 1
        case .largestContents, .blankContents, .emptyObjects: 2
        default: nil
        }
    }

    /// As much as a frame's content may be, in a megabyte.
    var hasLargestContents: Bool { [.largestContents, .blankContents, .emptyObjects].contains(self) }

    /// Its fetches take all the room that those of one process have.
    var isOfFetches: Bool { [.fetch, .search, .sortedStream].contains(self) }

    /// The seconds within which another client is to be answered beside it, in a release build: two where each job does about as
    /// much work as one job may, or its frame has as much content.
    var patience: Double {
        let isWorkOfOneJob = [.deletions, .ownedObjects, .failingReplacements, .replacedLinks, .searches].contains(self)
        return isWorkOfOneJob || hasLargestContents ? 2 : 1
    }

    /// The model of the store.
    var model: String {
        guard [.ownedObjects, .failingReplacements, .replacedLinks].contains(self) else { return Programs.model }
        return """
            {"entities": {
              "Employee": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}},
              "Department": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}, "relationships": {
                "lines": {"entity": "Line", "toMany": true, "owned": true},
                "rooms": {"entity": "Room", "toMany": true, "inverse": "department", "assignment": "replace"}}},
              "Line": {"identity": "id", "attributes": {"id": "integer64"}},
              "Room": {"identity": "id", "attributes": {"id": "integer64"},
                "relationships": {"department": {"entity": "Department", "inverse": "rooms"}}}}}
            """
    }

    /// A job that prepares the store.
    ///
    /// - Parameter count: the objects of which the jobs of the flood concern all.
    func preparation(_ count: Int) -> String? {
        func records(_ body: (Int) -> String) -> String { (10..<10 + count).map(body).joined(separator: ",") }
        switch self {
        case .deletions:
            return #"{"entity": "Employee", "json": [\#(records { #"{"id": \#($0), "department": 1}"# })]}"#
        case .search, .sortedStream:
            let text = String(repeating: "ab", count: 100_000)
            let rows = (10..<100).map { #"{"id": \#($0), "name": "\#($0 * 7_919 % 101)\#(text)"}"# }.joined(
                separator: ",")
            return #"{"entity": "Employee", "json": [\#(rows)]}"#
        case .ownedObjects, .failingReplacements:
            return #"{"entity": "Department", "json": {"id": 1, "lines": [\#(records { #"{"id": \#($0)}"# })]}}"#
        case .replacedLinks:
            return #"{"entity": "Department", "json": {"id": 1, "rooms": [\#(records { "\($0)" })]}}"#
        case .searches:
            let name = String(repeating: "ab", count: 20)
            return #"{"entity": "Employee", "json": [\#(records { #"{"id": \#($0), "name": "\#(name)"}"# })]}"#
        default: return nil
        }
    }

    /// Sent over and over.
    ///
    /// - Parameter folder: where the server may write.
    func messages(_ folder: String) -> [String] {
        let text = String(repeating: "t", count: 1_000)
        let rows = (1...200).map { #"{"id": \#($0), "name": "row \#($0)"}"# }.joined(separator: ",")
        switch self {
        case .hello: return [#"{"type": "hello", "version": 1, "client": "\#(text)"}"#]
        case .ping: return [#"{"type": "ping", "tag": "\#(text)"}"#]
        case .stats: return ["stats", "model", "jobs"].map { "{\"type\": \"\($0)\"}" }
        case .awaiting: return [#"{"type": "await", "id": "other"}"#, #"{"type": "await", "id": "none"}"#]
        case .fetch: return [#"{"type": "fetch", "entity": "Department", "tag": "\#(text)"}"#]
        case .cancel: return [#"{"type": "cancel", "id": "other"}"#, #"{"type": "cancel", "id": "none"}"#]
        case .checkpoint: return [#"{"type": "admin", "action": "checkpoint"}"#]
        case .reload: return [#"{"type": "admin", "action": "reload"}"#, #"{"type": "admin", "action": "no"}"#]
        case .backup: return [#"{"type": "admin", "action": "backup", "file": "\#(folder)/copy", "replace": true}"#]
        case .progress:
            return [#"{"entity": "Department", "json": [\#(rows)], "notify": ["accepted", "progress", "completed"]}"#]
        case .objects: return [#"{"entity": "Department", "json": [\#(rows)], "reply": "objects"}"#]
        case .oneID: return (1...2).map { #"{"id": "other", "entity": "Department", "json": [{"id": \#($0)}]}"# }
        case .nonsense: return [#"{"type": "nothing", "tag": "\#(text)"}"#, "[]", "{", #"{"op": 1}"#]
        case .hostileText:
            let marks = String(repeating: "\\u0301", count: 200_000)
            let deep = String(repeating: "[", count: 100_000)
            let digits = String(repeating: "9", count: 1_000_000)
            return [
                #"{"entity": "Department", "json": [{"id": 3, "name": "\#(marks)"}]}"#,
                #"{"entity": "Department", "json": \#(deep)"#,
                #"{"entity": "Department", "json": [{"id": \#(digits)}]}"#,
            ]
        case .largestContents:
            let name = String(repeating: " ", count: 250 << 20)
            return [#"{"entity": "Department", "json": [{"id": 4, "name": "\#(name)"}]}"#]
        case .blankContents:
            return [#"{"entity": "Department", "json": [\#(String(repeating: " ", count: 250 << 20))]}"#]
        case .emptyObjects:
            return [#"{"entity": "Department", "json": [{}\#(String(repeating: ",{}", count: 80 << 20))]}"#]
        case .connections: return [#"{"type": "ping"}"#]
        case .search:
            // As much as a fetch may do, and more than that.
            return [20, 400].map { count in
                let texts = (0..<count).map { "name LIKE '*b\($0)*c'" }.joined(separator: " OR ")
                return #"{"type": "fetch", "entity": "Employee", "where": "\#(texts)"}"#
            }
        case .sortedStream: return [#"{"type": "fetch", "entity": "Employee", "sort": ["-name"], "stream": true}"#]
        case .deletions:
            // Ends the links of all employees, then fails.
            return [#"{"operations": [{"op": "delete", "entity": "Department", "objects": [1]}, \#(Self.failure)]}"#]
        case .ownedObjects: return [#"{"entity": "Department", "json": {"id": 1, "lines": null}, "dryRun": true}"#]
        case .failingReplacements:
            let record = #"{"op": "process", "entity": "Department", "json": {"id": 1, "lines": []}}"#
            return [#"{"operations": [\#(record), \#(Self.failure)]}"#]
        case .replacedLinks: return [#"{"entity": "Department", "json": {"id": 1, "rooms": [7]}, "dryRun": true}"#]
        case .searches:
            let searches = (0..<200).map {
                #"{"op": "delete", "entity": "Employee", "where": "name LIKE '*a*a*a*a*a*\#($0)'"}"#
            }
            return [#"{"operations": [\#(searches.joined(separator: ","))]}"#]
        }
    }

    /// An operation that fails.
    private static let failure = #"{"op": "process", "entity": "Employee", "object": -1, "json": {"id": 2}}"#
}

/// Runs a flood on threads of its own until it is stopped.
final class Flooding: Sendable {
    private struct State {
        var isStopping = false
        var frames = 0
        var connections = 0
    }

    /// Clients at a time.
    private static let clients = 3

    private let state = Mutex(State())
    private let running = DispatchGroup()
    private let flows = DispatchSemaphore(value: 0)
    private let socket: String
    private let frames: [[UInt8]]
    private let framesPerConnection: Int

    init(_ flood: Flood, in folder: String, on socket: String) throws {
        frames = try flood.messages(folder).map { try RawClient.frame(Array($0.utf8)) }
        framesPerConnection = flood.framesPerConnection ?? .max
        self.socket = socket
        for _ in 0..<Self.clients {
            running.enter()
            Thread.detachNewThread { [self] in
                while !isStopping { attack() }
                running.leave()
            }
        }
    }

    private var isStopping: Bool { state.withLock { $0.isStopping } }

    /// One connection. Errors are expected: the server may refuse a flood and end its connections.
    private func attack() {
        guard let client = try? RawClient(socket) else { return }
        // The server need not read from a client that does not read.
        client.setPatience(seconds: 1)
        defer { flows.signal() }
        state.withLock { $0.connections += 1 }
        for number in 0..<framesPerConnection {
            guard !isStopping, (try? client.send(bytes: frames[number % frames.count])) != nil else {
                return
            }
            state.withLock { $0.frames += 1 }
            if number == 2 { flows.signal() }
        }
    }

    /// Waits until it is under way.
    func waitUntilItFlows() { for _ in 0..<Self.clients { flows.wait() } }

    /// Gives back how much was sent.
    func stop() -> (frames: Int, connections: Int) {
        state.withLock { $0.isStopping = true }
        running.wait()
        return state.withLock { ($0.frames, $0.connections) }
    }
}

/// Requests of one process take nothing from another.
@Suite(.timeLimit(.minutes(5))) struct FairShareTests {
    @Test func `fetches and awaits of one process that wait cause no refusal to another process`() throws {
        let programs = try Programs()
        _ = try programs.startServer()
        let socket = programs.path("broker.sock")
        let operating = try RawClient(socket)
        #expect(try operating.ask(#"{"entity": "Employee", "json": {"id": 1, "name": "E"}}"#).type == "completed")
        #expect(try operating.ask(#"{"type": "admin", "action": "pause"}"#).type == "done")
        // Each waits for the job before it, which the pause holds.
        var greedy: [RawClient] = []
        for message in [#"{"type": "fetch", "entity": "Employee"}"#, #"{"type": "await", "id": "held"}"#] {
            var isRefused = false
            for _ in 0..<60 where !isRefused {
                let client = try RawClient(socket)
                greedy.append(client)
                try client.send(#"{"id": "held", "entity": "Employee", "json": {"id": 2}}"#)
                let answer: Message
                do {
                    for _ in 0..<1_000 { try client.send(message) }
                    answer = try client.ask(#"{"type": "await", "id": "nobody"}"#)
                } catch let failure as RawClient.Failure where !failure.isTimeout {
                    // The server has closed the connection before it took all of them.
                    answer = try client.next()
                }
                isRefused = answer.code == "busy"
                #expect(isRefused || answer.code == "unknownJob", "\(answer.text)")
            }
            #expect(isRefused)
        }
        let fetched = try programs.run("broker", ["fetch", "Employee", "--socket", socket])
        #expect(fetched.status == 0, "\(fetched.complaints)")
        #expect(fetched.output.contains("E"))
        #expect(try operating.ask(#"{"type": "admin", "action": "resume"}"#).type == "done")
    }
}

/// The memory of a server that sends streams.
@Suite(.timeLimit(.minutes(5))) struct StreamMemoryTests {
    private static let count = 40_000
    private let programs: Programs
    private let process: Process

    init() throws {
        programs = try Programs()
        process = try programs.startServer()
        let client = try RawClient(programs.path("broker.sock"))
        // 42 MB of objects, of texts that LZ4 cannot compress to much less.
        var generator = SeededGenerator(seed: 3)
        let texts = (0..<500).map { _ in
            (0..<80).map { _ in String(generator.next(), radix: 36) }.joined()
        }
        for start in stride(from: 0, to: Self.count, by: 10_000) {
            let records = (start..<start + 10_000).map { #"{"id": \#($0), "name": "\#($0)\#(texts[$0 % 500])"}"# }
            let answer = try client.ask(#"{"entity": "Employee", "json": [\#(records.joined(separator: ","))]}"#)
            #expect(answer.type == "completed")
        }
    }

    /// A line of /proc/PID/status, in bytes.
    private func bytes(_ name: String) throws -> Int {
        let status = try String(contentsOfFile: "/proc/\(process.processIdentifier)/status", encoding: .utf8)
        let line = try #require(status.split(separator: "\n").first { $0.hasPrefix(name + ":") })
        return try #require(Int(line.filter(\.isNumber))) << 10
    }

    /// From now on the peak is that of what follows.
    private func resetPeak() throws {
        // proc(5), /proc/pid/clear_refs
        try "5".write(toFile: "/proc/\(process.processIdentifier)/clear_refs", atomically: false, encoding: .utf8)
    }

    private static func count(of byte: UInt8, in text: String) -> Int {
        var text = text
        return text.withUTF8 { bytes in
            var (count, rest) = (0, UnsafeRawBufferPointer(bytes))
            while let base = rest.baseAddress, let found = memchr(base, Int32(byte), rest.count) {
                count += 1
                rest = UnsafeRawBufferPointer(rebasing: rest[(UnsafeRawPointer(found) - base + 1)...])
            }
            return count
        }
    }

    /// Bytes of SQLite's temporary files, which have no name any more.
    private func temporaryBytes() throws -> Int {
        let folder = "/proc/\(process.processIdentifier)/fd"
        return try FileManager.default.contentsOfDirectory(atPath: folder).reduce(0) { sum, name in
            let path = "\(folder)/\(name)"
            // A descriptor that was closed meanwhile has no link.
            let link = (try? FileManager.default.destinationOfSymbolicLink(atPath: path)) ?? ""
            guard link.contains("etilqs") else { return sum }
            var file = stat()
            return stat(path, &file) == 0 ? sum + Int(file.st_size) : sum
        }
    }

    @Test func `sorted streams that are not read hold neither memory nor temporary files`() throws {
        let client = try RawClient(programs.path("broker.sock"))
        try resetPeak()
        let before = try bytes("VmRSS")
        let slow = try (0..<4).map { _ in try RawClient(programs.path("broker.sock")) }
        for client in slow {
            try client.send(#"{"type": "fetch", "entity": "Employee", "sort": ["-name"], "stream": true}"#)
            #expect(try client.next()["more"] == "true")
        }
        #expect(try temporaryBytes() < 1 << 20)
        let more = try bytes("VmHWM") - before
        #expect(more < 48 << 20, "\(more) bytes more")
        #expect(try client.ask(#"{"type": "ping"}"#).type == "pong")
    }

    @Test func `a stream of 40 MB of objects, and streams that are not read, take little memory`() throws {
        let client = try RawClient(programs.path("broker.sock"))
        try resetPeak()
        let before = try bytes("VmRSS")
        try client.send(#"{"type": "fetch", "entity": "Employee", "stream": true, "tag": 1}"#)
        var (objects, contentBytes, frames) = (0, 0, 0)
        var message: Message
        repeat {
            message = try client.next()
            #expect(message.type == "objects")
            // Each object has one.
            objects += Self.count(of: UInt8(ascii: "{"), in: message.text) - 1
            contentBytes += message.text.utf8.count
            frames += 1
        } while message["more"] == "true"
        #expect(objects == Self.count)
        #expect(contentBytes > 38 << 20)
        #expect(frames > 38)
        let one = try bytes("VmHWM") - before
        #expect(one < 20 << 20, "\(one) bytes more")
        // Their transactions and frames stay until the server ends them.
        let slow = try (0..<20).map { _ in try RawClient(programs.path("broker.sock")) }
        for client in slow {
            for _ in 0..<3 { try client.send(#"{"type": "fetch", "entity": "Employee", "stream": true}"#) }
        }
        for number in 0..<200 {
            let answer = try client.ask(#"{"type": "fetch", "entity": "Employee", "object": \#(number)}"#)
            #expect(answer["objects.0.id"] == "\(number)")
        }
        let many = try bytes("VmHWM") - before
        #expect(many < 48 << 20, "\(many) bytes more")
        withExtendedLifetime(slow) {}
    }
}

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

/// A few rounds of `scripts/crashtest`, which runs more of them by hand.
@Suite(.timeLimit(.minutes(10))) struct CrashTests {
    @Test func `kills of the server and of its clients lose nothing and double nothing`() throws {
        let programs = try Programs()
        // The files of a failure stay for inspection.
        let result = try programs.shell(
            "exec timeout \(10 * Patience.seconds) \(programs.executable("CrashTest").path) \(Cases.count(1, of: 3))")
        print(result.output)
        #expect(result.status == 0, "\(result.output)\(result.complaints)")
    }
}

/// A server with a journal that is killed, and what the next one makes of it.
@Suite(.timeLimit(.minutes(5))) struct JournalTests {
    /// A server was killed after it had accepted so many jobs and applied none.
    private func killed(_ programs: Programs, jobs: Int) throws {
        let server = try programs.startServer(["--journal"])
        let client = try RawClient(programs.path("broker.sock"))
        _ = try client.ask(#"{"type": "admin", "action": "pause"}"#)
        let name = String(repeating: "x", count: 300)
        for id in 1...jobs {
            let job =
                "{\"id\": \"job-\(id)\", \"notify\": [\"accepted\", \"completed\"], \"entity\": \"Employee\", "
                + "\"json\": {\"id\": \(id), \"name\": \"\(name)\"}, "
                + "\"bookmark\": {\"name\": \"feed\", \"value\": \"\(id)\"}}"
            #expect(try client.ask(job).type == "accepted")
        }
        kill(server.processIdentifier, SIGKILL)
        server.waitUntilExit()
    }

    private func stop(_ server: Process) {
        kill(server.processIdentifier, SIGTERM)
        server.waitUntilExit()
        #expect(server.terminationStatus == 0)
    }

    @Test func `accepted jobs are applied by a server of which every limit is too small for them`() throws {
        let programs = try Programs()
        try killed(programs, jobs: 20)
        let limits = [
            "--max-frame-bytes", "--max-content-bytes", "--max-bytes-in-flight", "--max-memory", "--max-job-memory",
            "--max-jobs-in-flight", "--jobs-per-connection",
        ]
        stop(try programs.startServer(["--journal"] + limits.flatMap { [$0, "1"] }))
        let rows = try SQLRows.of("SELECT count(*), sum(length(name)) FROM Employee", in: programs.path("store.sqlite"))
        #expect(rows == ["20|6000"])
        // Each job brought its bookmark along.
        let bookmark = try SQLRows.of("SELECT value FROM _broker_bookmarks", in: programs.path("store.sqlite"))
        #expect(bookmark == ["20"])
    }

    @Test func `the second half of a journal that was zeroed stops the start, and says where`() throws {
        let programs = try Programs()
        try killed(programs, jobs: 30)
        let path = programs.path("store.sqlite.journal/0000000000000001.jobs")
        let whole = try Data(contentsOf: URL(fileURLWithPath: path))
        var bytes = whole
        bytes.resetBytes(in: bytes.count / 2..<bytes.count)
        try bytes.write(to: URL(fileURLWithPath: path))
        let started = try programs.run(
            "brokerd", ["--model", "model.json", "--store", "store.sqlite", "--socket", "broker.sock", "--journal"])
        #expect(started.status == 1)
        #expect(started.complaints.contains("0000000000000001.jobs is damaged at byte"), "\(started.complaints)")
        try whole.write(to: URL(fileURLWithPath: path))
        stop(try programs.startServer(["--journal"]))
        #expect(try SQLRows.of("SELECT count(*) FROM Employee", in: programs.path("store.sqlite")) == ["30"])
    }

    @Test func `a tail of a journal that is torn is cut off, and the log says how much and where`() throws {
        let programs = try Programs()
        try killed(programs, jobs: 3)
        let path = programs.path("store.sqlite.journal/0000000000000001.jobs")
        let size = try Data(contentsOf: URL(fileURLWithPath: path)).count
        let file = try FileHandle(forWritingTo: URL(fileURLWithPath: path))
        try file.seekToEnd()
        try file.write(contentsOf: Data(repeating: 7, count: 1_000))
        try file.close()
        try programs.write("", to: "log")
        let log = try FileHandle(forWritingTo: URL(fileURLWithPath: programs.path("log")))
        stop(try programs.startServer(["--journal"], complaints: log))
        let lines = try String(contentsOfFile: programs.path("log"), encoding: .utf8).split(separator: "\n")
        let line = lines.first { $0.contains("was cut off") }
        #expect(line?.contains("bytes=1000") == true && line?.contains("byte=\(size)") == true, "\(lines)")
        #expect(try SQLRows.of("SELECT count(*) FROM Employee", in: programs.path("store.sqlite")) == ["3"])
    }

    @Test func `a full store beside a journal is reported once, and the printed command submits everything`() throws {
        let programs = try Programs()
        try programs.write(
            (1...500).map { "{\"id\": \($0), \"name\": \"Ada\"}\n" }.joined(), to: "e.ndjson")
        // The system's limit for files, 2,048 blocks of 512 bytes, simulates the disk's end. The rows of this job need more
        // than its text in the journal.
        let full = try programs.startServer(["--journal"], limit: "-f 2048")
        let client = try RawClient(programs.path("broker.sock"))
        let records = (100_001...150_000).map { "{\"id\":\($0)}" }.joined(separator: ",")
        #expect(
            try client.ask(
                "{\"id\": \"large\", \"entity\": \"Employee\", \"notify\": [\"accepted\"], \"json\": [\(records)]}"
            ).type == "accepted")
        let watcher = try RawClient(programs.path("broker.sock"))
        while !(try watcher.ask(#"{"type": "stats"}"#).text.contains(#""state":"waiting""#)) {}

        let submit = ["submit", "--socket", "broker.sock", "--entity", "Employee", "--batch-records", "50", "e.ndjson"]
        let refused = try programs.run("broker", submit)
        #expect(refused.status == 1)
        #expect(refused.complaints.components(separatedBy: "is full").count == 2, "\(refused.complaints)")
        #expect(!refused.complaints.contains("correct records"), "\(refused.complaints)")
        let command = try #require(refused.complaints.split(separator: ": ").last?.trimmingCharacters(in: .newlines))
        #expect(command.hasSuffix(" e.ndjson") && !command.contains("--skip"), "\(command)")
        kill(full.processIdentifier, SIGKILL)
        full.waitUntilExit()

        let again = try programs.startServer(["--journal"])
        #expect(try programs.shell(command).status == 0)
        stop(again)
        #expect(
            try SQLRows.of("SELECT count(*), count(name) FROM Employee", in: programs.path("store.sqlite"))
                == ["50500|500"])
    }
}
