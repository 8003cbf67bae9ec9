import Foundation
import TestSupport

/// Clients with many small jobs.
extension ReplicaRound {
    /// Its existence ends the load.
    private static let endOfLoad = "load.end"

    /// Each machine has a client that sends small jobs, and many of them while faults strike: then each server always has some on
    /// their way to the log.
    func startLoad() throws {
        for number in machines.indices {
            let name = "load\(number)"
            let words = ["--until", Self.endOfLoad, "--window", "8", "--pace", "30000"]
            fillings[name] = try startFilling(name, words, (0..<3).map { machines[(number + $0) % 3] })
        }
    }

    /// Comes back when there are many on their way.
    func rush() throws {
        try Data().write(to: URL(fileURLWithPath: Filling.rush))
        usleep(Self.rushTime)
    }

    func endRush() throws { try FileManager.default.removeItem(atPath: Filling.rush) }

    /// Microseconds. A client may have waited for as long as its pace.
    private static let rushTime: UInt32 = 100_000

    func endLoad() throws {
        try Data().write(to: URL(fileURLWithPath: Self.endOfLoad))
        for (name, client) in fillings { try finish(name, client) }
        fillings = [:]
    }

    /// Waits for the end of that many small jobs.
    func fill(_ name: String, _ count: Int, by machines: [Machine]) throws {
        let client = try startFilling(name, ["--count", "\(count)", "--window", "1000", "--pace", "0"], machines)
        try finish(name, client)
    }

    private func startFilling(_ name: String, _ words: [String], _ machines: [Machine]) throws -> ChildProcess {
        try ChildProcess(
            [programs.own, "fill", name] + words + machines.flatMap { ["--socket", $0.socket] }, output: progress.end,
            complaints: "fill-\(name).complaints")
    }

    private func finish(_ name: String, _ client: ChildProcess) throws {
        while !client.hasEnded {
            try operate()
            try checkTime("the jobs \(name)")
            usleep(5_000)
        }
        guard client.status == 0 else { throw Difference("The client \(name) gave up; see fill-\(name).complaints.") }
        let data = try Data(contentsOf: URL(fileURLWithPath: FillingProcess.report(name)))
        let report = try JSONDecoder().decode(Filling.Report.self, from: data)
        figures.filled += report.count
        figures.filledAgain += report.sendings.values.reduce(0) { $0 + $1 - 1 }
        filled.merge(report.sendings) { first, _ in first }
    }
}
