@testable import BrokerLoad
import CZlib
import Foundation
import Testing
import TestSupport

@Suite(.timeLimit(.minutes(5)))
struct HistogramTests {
    /// The counts by their index that a reader of the log finds in a payload.
    private func decode(_ payload: [UInt8]) throws -> [Int: Int64] {
        var place = 0
        func number<Number: FixedWidthInteger>(_ bytes: [UInt8]) -> Number {
            defer { place += MemoryLayout<Number>.size }
            let digits = bytes[place..<place + MemoryLayout<Number>.size]
            return digits.reduce(0) { $0 << 8 | Number(truncatingIfNeeded: $1) }
        }
        #expect(number(payload) as Int32 == 0x1C84_9314)
        let count: Int32 = number(payload)
        #expect(Int(count) == payload.count - 8)
        var plain = [UInt8](repeating: 0, count: 1 << 20)
        var plainCount = UInt(plain.count)
        #expect(uncompress(&plain, &plainCount, Array(payload[8...]), UInt(payload.count - 8)) == Z_OK)
        place = 0
        #expect(number(plain) as Int32 == 0x1C84_9313)
        let length: Int32 = number(plain)
        #expect(Int(length) + 40 == Int(plainCount))
        #expect([number(plain), number(plain)] as [Int32] == [0, 3])
        #expect([number(plain), number(plain)] as [Int64] == [1, 3_600_000_000_000])
        #expect(number(plain) as UInt64 == (1.0).bitPattern)
        var counts: [Int: Int64] = [:]
        var index = 0
        while place < Int(plainCount) {
            var (zigzag, shift): (UInt64, UInt64) = (0, 0)
            repeat {
                zigzag |= UInt64(plain[place] & 0x7F) << shift
                shift += 7
                place += 1
            } while plain[place - 1] & 0x80 != 0
            let value = Int64(bitPattern: zigzag >> 1) ^ -Int64(bitPattern: zigzag & 1)
            if value < 0 {
                index += Int(-value)
            } else {
                counts[index] = value
                index += 1
            }
        }
        return counts
    }

    @Test func `a histogram is the same after encoding and decoding`() throws {
        var random = SeededGenerator()
        var histogram = LatencyHistogram()
        for _ in 0..<5_000 { histogram.record(UInt64.random(in: 0...1 << UInt64.random(in: 1...41), using: &random)) }
        let counts = try decode(HistogramEncoding.payload(histogram))
        #expect(counts.values.reduce(0, +) == 5_000)
        var expected: [Int: Int64] = [:]
        for (value, count) in histogram.recorded {
            expected[HistogramEncoding.index(of: value), default: 0] += Int64(count)
        }
        #expect(counts == expected)
    }

    @Test func `an index is what the format says`() {
        let known = [(0, 0), (1, 1), (2_047, 2_047), (2_048, 2_048), (2_049, 2_048), (4_095, 3_071), (4_096, 3_072)]
        for (value, index) in known {
            #expect(HistogramEncoding.index(of: UInt64(value)) == index)
        }
    }

    @Test func `an empty histogram has no percentile and an encoding`() throws {
        #expect(LatencyHistogram().percentile(99) == 0)
        #expect(try decode(HistogramEncoding.payload(LatencyHistogram())) == [:])
    }

    @Test func `a log has a line for each interval and a tagged one for accepted`() throws {
        var recorder = RunRecorder(wantsLog: true)
        recorder.ended(records: 1, latency: 1_500_000, stages: nil)
        recorder.closeInterval(at: 0.5)
        recorder.accepted(latency: 250_000)
        recorder.ended(records: 1, latency: 2_500_000, stages: nil)
        recorder.closeInterval(at: 1)
        var result = RunResult()
        result.intervals = recorder.intervals
        let lines = HistogramLog.text(result, name: "run").split(separator: "\n").filter { !$0.hasPrefix("#") }
        try #require(lines.count == 4)
        let fields = lines[1].split(separator: ",")
        #expect(fields.prefix(3) == ["0.000", "0.500", "1.500"])
        #expect(lines[2].hasPrefix("0.500,0.500,2."))
        #expect(lines[3].hasPrefix("Tag=accepted,0.500,0.500,0.250,"))
        let payload = try #require(Data(base64Encoded: String(fields[3])))
        #expect(try decode(Array(payload)).values.reduce(0, +) == 1)
    }

    @Test func `jobs before the measured time are not counted`() {
        var recorder = RunRecorder(wantsLog: false)
        recorder.sent(late: 5, contentBytes: 10, frameBytes: 10)
        recorder.ended(records: 1, latency: 5, stages: nil)
        recorder.begin()
        // One of the warm-up that ends later counts for the rate alone.
        recorder.ended(records: 1, latency: nil, stages: nil)
        recorder.ended(records: 1, latency: 7, stages: nil)
        recorder.closeInterval(at: 1)
        #expect(recorder.jobs == 2)
        #expect(recorder.completed.count == 1)
        #expect(recorder.sentJobs == 0)
    }
}
