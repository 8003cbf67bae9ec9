import BrokerWire
import NIOCore
import TestSupport
import Testing

@testable import BrokerServer

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

/// The machine in a reference, so that an expectation may change it.
private final class Turns {
    private var turns: AssemblyTurns<Int>

    init(byteLimit: Int) { turns = AssemblyTurns(byteLimit: byteLimit) }

    var isContended: Bool { turns.isContended }
    var heldBytes: Int { turns.heldBytes }
    func ask(_ holder: Int, process: Int32, bytes: Int) -> Bool { turns.ask(holder, process: process, bytes: bytes) }
    func leave(_ holder: Int) -> [Int] { turns.leave(holder) }
}

@Suite(.timeLimit(.minutes(5))) struct AssemblyTurnsTests {
    @Test(arguments: 1...20) func `whatever happens, the bytes are counted and no connection is forgotten`(seed: UInt64)
    {
        var generator = SeededGenerator(seed: seed)
        let turns = Turns(byteLimit: 100)
        var holding: [Int: Int] = [:]
        var waiting: [Int: Int] = [:]
        for number in 0..<500 {
            if Bool.random(using: &generator) {
                let bytes = Int.random(in: 1...150, using: &generator)
                let process = Int32.random(in: 1...3, using: &generator)
                if turns.ask(number, process: process, bytes: bytes) {
                    holding[number] = bytes
                } else {
                    waiting[number] = bytes
                }
            } else if let leaving = Array(holding.keys).sorted().randomElement(using: &generator) {
                holding[leaving] = nil
                for next in turns.leave(leaving) { holding[next] = waiting.removeValue(forKey: next) }
            }
            #expect(turns.heldBytes == holding.values.reduce(0, +), "seed \(seed)")
            #expect(holding.count <= 1 || turns.heldBytes <= 100, "seed \(seed)")
            #expect(!holding.isEmpty || waiting.isEmpty, "seed \(seed)")
        }
    }
}
