import BrokerWire
import TestSupport
import Testing

@testable import BrokerServer

@Suite(.timeLimit(.minutes(5))) struct FrameBytesTests {
    /// The frame without its length.
    private func payload(_ content: [UInt8]) throws -> [UInt8] {
        var encoder = FrameEncoder()
        return Array(try encoder.encode(content).dropFirst(FrameScanner.prefixCount))
    }

    private func bytes(_ payload: [UInt8], _ limits: FrameLimits = FrameLimits()) -> FrameBytes {
        payload.withUnsafeBytes { FrameBytes($0, limits: limits) }
    }

    @Test(arguments: [1, 60, 512, 513, 5_000]) func `the payload is as it arrived, compressed or not`(count: Int) throws
    {
        var generator = SeededGenerator()
        let content = (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
        let payload = try payload(content)
        let bytes = bytes(payload)
        #expect(bytes.payload == payload && bytes.payloadCount == payload.count)
        if case .content(let text) = bytes {
            #expect(count <= 512 && Array(text.bytes) == content)
        } else {
            #expect(count > 512)
        }
    }

    @Test func `a content above the limit is left to the decoder, which refuses it`() throws {
        let limits = FrameLimits(maximumContentCount: 10)
        let payload = try payload([UInt8](repeating: 32, count: 11))
        guard case .payload(payload) = bytes(payload, limits) else { return #expect(Bool(false)) }
        var decoder = FrameDecoder(limits: limits)
        #expect(throws: WireError.self) { try payload.withUnsafeBytes { _ = try decoder.decode($0) } }
    }
}
