import ArgumentParser
import Foundation
import TestSupport

/// Jobs of one record each, of an entity that no other job touches: a log gets long by them, and always has entries on their way. The
/// comparison with the replay skips them.
struct Filling {
    static let entity = "Filler"
    private static let mark = "fill-"
    /// Objects that the jobs write, again and again.
    private static let objects = 1_000
    /// Microseconds.
    private static let pause: UInt32 = 200_000
    private static let patienceSeconds = 4 * Patience.seconds

    /// The end of a client.
    struct Report: Codable {
        var count = 0
        /// By id, of jobs that were sent more than once.
        var sendings: [String: Int] = [:]
    }

    let name: String
    let sockets: [String]
    /// Jobs; nil for as many as until there is that file.
    let count: Int?
    let until: String?
    let window: Int
    /// Microseconds that it waits for each job that it has sent, while there is no file of the name ``rush``.
    let pace: UInt32
    static let rush = "load.rush"
    private static let rushPace: UInt32 = 1_000
    private var newest = 0
    private var waiting: Set<Int> = []
    private var sendings: [Int: Int] = [:]

    init(_ name: String, sockets: [String], count: Int?, until: String?, window: Int, pace: UInt32) {
        self.name = name
        self.sockets = sockets
        self.count = count
        self.until = until
        self.window = window
        self.pace = pace
    }

    /// Whether that is the id of such a job.
    static func isOne(_ id: String) -> Bool { id.hasPrefix(mark) }

    /// Comes back when all are completed.
    mutating func run() throws -> Report {
        var connections = 0
        while hasMore || !waiting.isEmpty {
            connections += 1
            do {
                try talk(RawClient(sockets[connections % sockets.count]))
            } catch let failure as RawClient.Failure where !failure.isTimeout {
                usleep(Self.pause)
            }
        }
        let again = sendings.filter { $0.value > 1 }.map { (id(of: $0.key), $0.value) }
        return Report(count: newest, sendings: Dictionary(uniqueKeysWithValues: again))
    }

    private var hasMore: Bool {
        if let count { return newest < count }
        return until.map { access($0, F_OK) != 0 } ?? false
    }

    private func id(of number: Int) -> String { "\(Self.mark)\(name)-\(number)" }

    private func text(of number: Int) -> String {
        let object = (number - 1) % Self.objects + 1
        let operation =
            #"{"op": "process", "entity": "\#(Self.entity)", "json": {"id": \#(object), "value": \#(object)}}"#
        return #"{"id": "\#(id(of: number))", "tag": "\#(number)", "reply": "none", "operations": [\#(operation)]}"#
    }

    private mutating func talk(_ connection: RawClient) throws {
        connection.setPatience(seconds: Self.patienceSeconds)
        var again = waiting.sorted()[...]
        var inFlight = 0
        while true {
            while inFlight < window, let number = again.popFirst() ?? newNumber() {
                sendings[number, default: 0] += 1
                waiting.insert(number)
                try connection.send(text(of: number))
                inFlight += 1
                if pace > 0 { usleep(access(Self.rush, F_OK) == 0 ? Self.rushPace : pace) }
            }
            guard inFlight > 0, let first = try connection.receive() else { return }
            var messages = [first]
            while let message = try connection.takeRead() { messages.append(message) }
            for message in messages {
                guard !message.isRefusal else {
                    usleep(Self.pause)
                    return
                }
                guard message.type == "completed", let number = message["tag"].flatMap({ Int($0) }) else {
                    throw Difference("received \(message.text)")
                }
                if waiting.remove(number) != nil { inFlight -= 1 }
            }
        }
    }

    private mutating func newNumber() -> Int? {
        guard hasMore else { return nil }
        newest += 1
        return newest
    }
}

struct FillingProcess: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fill", abstract: "A client that sends many small jobs.", shouldDisplay: false)

    @Argument var name: String
    @Option var count: Int?
    @Option var until: String?
    @Option var window: Int
    @Option var pace: UInt32
    @Option var socket: [String]

    func run() throws {
        var filling = Filling(name, sockets: socket, count: count, until: until, window: window, pace: pace)
        try JSONEncoder().encode(filling.run()).write(to: URL(fileURLWithPath: Self.report(name)))
    }

    static func report(_ name: String) -> String { "fill-\(name).json" }
}
