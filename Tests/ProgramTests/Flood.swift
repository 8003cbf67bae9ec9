import Foundation
import Synchronization
import TestSupport

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
