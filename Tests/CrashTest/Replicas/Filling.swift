import ArgumentParser
import Foundation
import TestSupport

/// Jobs of one record each, many in flight, of an entity that no other job touches: a log gets long by them. The comparison
/// with the replay skips them.
struct Filling {
    static let entity = "Filler"
    private static let mark = "fill-"
    private static let window = 1_000
    /// Microseconds.
    private static let pause: UInt32 = 200_000

    /// By number, those without an end.
    private var waiting: [Int: String]
    private let sockets: [String]

    /// Whether that is the id of such a job.
    static func isOne(_ id: String) -> Bool { id.hasPrefix(mark) }

    /// - Parameter name: part of the ids.
    init(_ name: String, count: Int, sockets: [String]) {
        self.sockets = sockets
        waiting = Dictionary(
            uniqueKeysWithValues: (1...count).map { number in
                let id = "\(Self.mark)\(name)-\(number)"
                let operation =
                    #"{"op": "process", "entity": "\#(Self.entity)", "json": {"id": \#(number), "value": \#(number)}}"#
                return (
                    number,
                    #"{"id": "\#(id)", "tag": "\#(number)", "reply": "none", "operations": [\#(operation)]}"#
                )
            })
    }

    /// Comes back when all are completed.
    mutating func run() throws {
        var connections = 0
        while !waiting.isEmpty {
            connections += 1
            do {
                try talk(RawClient(sockets[connections % sockets.count]))
            } catch let failure as RawClient.Failure where !failure.isTimeout {
                usleep(Self.pause)
            }
        }
    }

    private mutating func talk(_ connection: RawClient) throws {
        connection.setPatience(seconds: 60)
        var next = waiting.keys.sorted()[...]
        var inFlight = 0
        while !waiting.isEmpty {
            while inFlight < Self.window, let number = next.popFirst() {
                try connection.send(waiting[number]!)
                inFlight += 1
            }
            guard let first = try connection.receive() else { return }
            var messages = [first]
            while let message = try connection.takeRead() { messages.append(message) }
            for message in messages {
                guard !message.isRefusal else { return }
                guard message.type == "completed", let number = message["tag"].flatMap({ Int($0) }) else {
                    throw Difference("received \(message.text)")
                }
                if waiting.removeValue(forKey: number) != nil { inFlight -= 1 }
            }
        }
    }
}

struct FillingProcess: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fill", abstract: "A client that sends many small jobs.", shouldDisplay: false)

    @Argument var name: String
    @Argument var count: Int
    @Option var socket: [String]

    func run() throws {
        var filling = Filling(name, count: count, sockets: socket)
        try filling.run()
    }
}
