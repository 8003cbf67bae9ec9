#if Replication
import Foundation
import Testing

@testable import BrokerReplication

/// Prints rates; only with `BROKER_MEASUREMENTS` in the environment, and meaningful only in a release build on a disk that syncs
/// (`TMPDIR`).
@Suite(.serialized, .timeLimit(.minutes(10)), .enabled(if: isMeasuring)) struct ReplicationMeasurements {
    private func seconds(_ body: () throws -> Void) rethrows -> Double {
        let duration = try ContinuousClock().measure(body)
        return Double(duration.components.seconds) + Double(duration.components.attoseconds) / 1e18
    }

    @Test func `rates of appending and reading`() throws {
        let cluster = try #require(NATSCluster.shared)
        let cases = [
            (200, 256, 400), (200, 1_000, 150), (2_000, 256, 150), (20_000, 256, 30), (1_000_000, 16, 15),
            (200, 1, 2_000),
        ]
        for (bytes, count, groups) in cases {
            let stream = try cluster.createStream("measure")
            let session = Session(stream)
            // The header is a part of the size.
            let payload = [UInt8](repeating: 1, count: bytes - EntryEncoding.headerCount)
            let group = (0..<count).map { _ in ReplicatedEntry(.job, session: session.id, payload: payload) }
            for _ in 0..<3 { _ = try session.append(group) }
            var times: [Double] = []
            for _ in 0..<groups { times.append(try seconds { _ = try session.append(group) }) }
            times.sort()
            let appending = Double(count * groups) / times.reduce(0, +)
            let total = count * (groups + 3)
            let reading = try seconds { _ = try ReplicationTests.read(StreamReader(stream, after: 0), total) }
            print(
                "\(bytes) bytes in groups of \(count): \(Int(appending)) appended a second "
                    + "(\(Int(appending * Double(bytes) / 1e6)) MB/s), p50 \(Int(times[times.count / 2] * 1e6)) us, "
                    + "p99 \(Int(times[times.count * 99 / 100] * 1e6)) us; \(Int(Double(total) / reading)) read a second"
            )
            try stream.remove()
        }
    }
}

private let isMeasuring = ProcessInfo.processInfo.environment["BROKER_MEASUREMENTS"] != nil
#endif
