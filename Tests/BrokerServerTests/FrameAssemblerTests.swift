@testable import BrokerServer
import BrokerWire
import NIOCore
import Testing

@Suite(.timeLimit(.minutes(5))) struct FrameAssemblerTests {
    private func frame(_ count: Int) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: 4 + count) { buffer, written in
            for index in 0..<4 { buffer[index] = UInt8(truncatingIfNeeded: count >> (24 - 8 * index)) }
            for index in 0..<count { buffer[4 + index] = UInt8(truncatingIfNeeded: index * 31) }
            written = 4 + count
        }
    }

    private func expect(_ assembler: inout FrameAssembler, _ expected: FrameAssembler.Step) throws {
        let step = try assembler.next()
        #expect(step == expected)
    }

    private func expectFrame(_ assembler: inout FrameAssembler) throws {
        guard case .frame = try assembler.next() else { throw WireError(.internal, "no frame is there") }
    }

    /// Feeds the bytes in pieces, begins whatever is large, and takes every frame.
    private func payloads(of bytes: [UInt8], inPiecesOf count: Int) throws -> [[UInt8]] {
        var assembler = FrameAssembler(limits: FrameLimits())
        var payloads: [[UInt8]] = []
        for start in stride(from: 0, to: bytes.count, by: count) {
            assembler.append(ByteBuffer(bytes: bytes[start..<min(start + count, bytes.count)]))
            cutting: while true {
                switch try assembler.next() {
                case .frame: payloads.append(assembler.take().payload)
                case .large: assembler.beginLarge()
                case .incomplete: break cutting
                }
            }
        }
        #expect(assembler.unfinishedCount == 0)
        return payloads
    }

    @Test(arguments: [1, 3, 100, 16 << 10, 1 << 20])
    func `frames come out as they went in, whatever the pieces`(piece: Int) throws {
        let counts = piece < 100 ? [1, 7, 200, 20_000] : [1, 16 << 10, 16_380, 300_000, 5, 70_000]
        let payloads = try payloads(of: counts.flatMap { frame($0) }, inPiecesOf: piece)
        #expect(payloads.map(\.count) == counts)
        for payload in payloads { #expect(payload == Array(frame(payload.count).dropFirst(4))) }
    }

    @Test func `a large frame is not read on before it has begun`() throws {
        var assembler = FrameAssembler(limits: FrameLimits())
        assembler.append(ByteBuffer(bytes: frame(1_000_000).prefix(1_000)))
        try expect(&assembler, .large(totalCount: 1_000_004))
        #expect(!assembler.isAssembling)
        assembler.beginLarge()
        #expect(assembler.isAssembling)
        #expect(assembler.backlog == 0)
        #expect(assembler.unfinishedCount == 1_000)
        try expect(&assembler, .incomplete(totalCount: 1_000_004))
    }

    @Test func `the bytes after a large frame are separate from it`() throws {
        var assembler = FrameAssembler(limits: FrameLimits())
        let bytes = frame(100_000) + frame(10)
        assembler.append(ByteBuffer(bytes: bytes.prefix(20)))
        _ = try assembler.next()
        assembler.beginLarge()
        assembler.append(ByteBuffer(bytes: bytes.dropFirst(20)))
        try expectFrame(&assembler)
        let payload = assembler.take()
        #expect(payload.payloadCount == 100_000)
        try expectFrame(&assembler)
    }
}
