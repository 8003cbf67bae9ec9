import Broker
import BrokerClient
import Glibc
import Synchronization

/// Measures the client library against a server, for `scripts/bench client`:
///
///     ClientLoad rate SOCKET JOBS RECORDS IN-FLIGHT
///     ClientLoad beside SOCKET
///     ClientLoad steady SOCKET
///
/// It prints one line of JSON. It imports no more than a client needs, because its memory is measured.
@main struct ClientLoad {
    static func main() async throws {
        let arguments = CommandLine.arguments
        let numbers = arguments.dropFirst(3).compactMap { Int($0) }
        switch (arguments.dropFirst().first, numbers.count, arguments.count) {
        case ("rate", 3, 6):
            try await Rate(socket: arguments[2], jobs: numbers[0], records: numbers[1], inFlight: numbers[2]).run()
        case ("beside", 0, 3): try await Beside(socket: arguments[2]).run()
        case ("steady", 0, 3): try await Steady(socket: arguments[2]).run()
        default:
            complain("usage: ClientLoad rate SOCKET JOBS RECORDS IN-FLIGHT | beside SOCKET | steady SOCKET")
            exit(2)
        }
    }
}

struct Employee: Codable {
    var id: Int
    var name: String
    var email: String
    var age: Int
    var salary: Double

    init(_ id: Int) {
        self.id = id
        name = "Employee \(id)"
        email = "employee\(id)@example.com"
        age = 20 + id % 50
        salary = Double(id % 1_000) * 12.5
    }
}

/// The rate of jobs whose records are encoded from values, with a number of tasks that wait for each of theirs.
struct Rate {
    let socket: String
    let jobs: Int
    let records: Int
    let inFlight: Int

    func run() async throws {
        var configuration = RemoteBroker.Configuration(name: "rate")
        configuration.maximumJobsInFlight = inFlight
        let broker = try await RemoteBroker.connect(to: .unixSocket(socket), configuration: configuration)
        let next = Counter()
        let begin = ContinuousClock.now
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<inFlight {
                group.addTask {
                    while true {
                        let number = next.next()
                        guard number < jobs else { return }
                        let first = number * records
                        if records == 1 {
                            try await broker.process(Employee(first), as: "Employee")
                        } else {
                            try await broker.process((first..<first + records).map(Employee.init), as: "Employee")
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        let seconds = (ContinuousClock.now - begin).seconds
        report(["jobsPerSecond": Double(jobs) / seconds, "recordsPerSecond": Double(jobs * records) / seconds])
    }
}

/// The rate of one-record jobs of 32 tasks, alone and while another task sends bodies of 16 MB one after the other.
struct Beside {
    let socket: String
    private let tasks = 32
    private let seconds = 5
    private let bytes = 16_000_000

    init(socket: String) { self.socket = socket }

    func run() async throws {
        let broker = try await RemoteBroker.connect(to: .unixSocket(socket))
        let body = Self.body(bytes)
        let alone = try await rate(of: broker, beside: nil)
        let bodies = Counter()
        let beside = try await rate(of: broker) {
            try await broker.process(json: body, as: "Employee")
            _ = bodies.next()
        }
        report(["alone": alone, "beside": beside, "bodiesPerSecond": Double(bodies.count) / Double(seconds)])
    }

    /// - Returns: small jobs a second.
    private func rate(
        of broker: RemoteBroker, beside body: (@Sendable () async throws -> Void)?
    ) async throws -> Double {
        let isOver = Flag()
        let count = Counter()
        let begin = ContinuousClock.now
        return try await withThrowingTaskGroup(of: Void.self) { group in
            if let body {
                group.addTask { while !isOver.isSet { try await body() } }
            }
            for task in 0..<tasks {
                group.addTask {
                    var id = 1_000_000_000 + task
                    while !isOver.isSet {
                        try await broker.process(Employee(id), as: "Employee")
                        _ = count.next()
                        id += tasks
                    }
                }
            }
            try await Task.sleep(for: .seconds(seconds))
            isOver.set()
            let small = Double(count.count) / (ContinuousClock.now - begin).seconds
            try await group.waitForAll()
            return small
        }
    }

    private static func body(_ bytes: Int) -> [UInt8] {
        var body = Array("[".utf8)
        var id = 0
        while body.count < bytes {
            if id > 0 { body.append(UInt8(ascii: ",")) }
            let employee = Employee(id)
            body += Array(
                #"{"id":\#(id),"name":"\#(employee.name)","email":"\#(employee.email)","age":\#(employee.age),"salary":1.5}"#
                    .utf8)
            id += 1
        }
        return body + Array("]".utf8)
    }
}

/// One-record jobs of 64 tasks until the standard input ends, while something else kills and restarts the server. Prints how many
/// objects were acknowledged, and how many jobs failed.
struct Steady {
    let socket: String
    private let tasks = 64

    init(socket: String) { self.socket = socket }

    func run() async throws {
        var configuration = RemoteBroker.Configuration(name: "steady")
        configuration.reconnectDeadline = .seconds(60)
        let broker = try await RemoteBroker.connect(to: .unixSocket(socket), configuration: configuration)
        let isOver = Flag()
        let next = Counter()
        let failed = Counter()
        let input = Task.detached {
            var byte: UInt8 = 0
            while read(STDIN_FILENO, &byte, 1) > 0 {}
            isOver.set()
        }
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<tasks {
                group.addTask {
                    while !isOver.isSet {
                        let number = next.next()
                        do {
                            try await broker.process(Employee(number), as: "Employee")
                        } catch {
                            complain("\(error)")
                            _ = failed.next()
                        }
                    }
                }
            }
            await group.waitForAll()
        }
        await input.value
        report([
            "sent": Double(next.count), "failed": Double(failed.count),
        ])
    }
}

/// A number that tasks raise.
private final class Counter: Sendable {
    private let value = Atomic(0)

    var count: Int { value.load(ordering: .relaxed) }

    /// - Returns: the number of earlier calls.
    func next() -> Int { value.add(1, ordering: .relaxed).oldValue }
}

/// A signal to tasks that they should end.
private final class Flag: Sendable {
    private let value = Atomic(false)

    var isSet: Bool { value.load(ordering: .relaxed) }

    func set() { value.store(true, ordering: .relaxed) }
}

/// With the largest memory that the process had.
private func report(_ numbers: [String: Double]) {
    var usage = rusage()
    getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
    var numbers = numbers.mapValues { ($0 * 10).rounded() / 10 }
    numbers["peakMiB"] = (Double(usage.ru_maxrss) / 102.4).rounded() / 10
    let members = numbers.sorted { $0.key < $1.key }.map { "\"\($0.key)\": \($0.value)" }
    print("{\(members.joined(separator: ", "))}")
}

private func complain(_ text: String) {
    let line = Array("\(text)\n".utf8)
    write(STDERR_FILENO, line, line.count)
}

extension Duration {
    fileprivate var seconds: Double { Double(components.seconds) + Double(components.attoseconds) / 1e18 }
}
