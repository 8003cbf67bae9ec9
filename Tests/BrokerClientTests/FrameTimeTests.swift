import BrokerWire
import NIOCore
import NIOEmbedded
import Testing

import Broker
@testable import BrokerClient
import BrokerRequests

/// The time limit of one frame, with a clock that the test moves.
@Suite(.timeLimit(.minutes(5))) struct FrameTimeTests {
    private let loop = EmbeddedEventLoop()
    private let driver: SessionDriver
    private let channel: EmbeddedChannel

    init() throws {
        let session = Session(
            path: "/s", window: PendingJobs(maximumCount: 1, maximumBytes: 1),
            patience: .init(reconnecting: .seconds(1), welcome: .seconds(1)))
        driver = SessionDriver(
            session: session, name: nil, frameTime: .seconds(10), eventLoop: loop, logger: .silent)
        channel = EmbeddedChannel(handler: ConnectionHandler(connection: 1, driver: driver), loop: loop)
    }

    private func frame() throws -> [UInt8] {
        var encoder = FrameEncoder()
        return try encoder.encode(Array(#"{"type":"news"}"#.utf8))
    }

    private func receive(_ bytes: some Sequence<UInt8>) throws {
        try channel.writeInbound(ByteBuffer(bytes: bytes))
    }

    /// Before it was welcomed, a session that has lost its connection takes nothing more.
    private var isLost: Bool {
        do throws(BrokerError) {
            try driver.add(request: 1, frame: [], waiter: Answer())
            return false
        } catch {
            return true
        }
    }

    @Test func `a frame that trickles is given up when its time is over`() throws {
        for byte in try frame().prefix(9) {
            try receive([byte])
            loop.advanceTime(by: .seconds(1))
        }
        #expect(!isLost)
        loop.advanceTime(by: .seconds(1))
        #expect(isLost)
    }

    @Test func `frames that come in time, one after the other, are no frame that never ends`() throws {
        let frame = try frame()
        var rest: ArraySlice<UInt8> = []
        // There is never a moment without the beginning of some frame.
        for _ in 0..<20 {
            try receive(rest + frame.prefix(7))
            rest = frame.dropFirst(7)
            loop.advanceTime(by: .seconds(6))
            #expect(!isLost)
        }
        try receive(rest)
        loop.advanceTime(by: .seconds(60))
        #expect(!isLost)
        try receive(frame.prefix(2))
        loop.advanceTime(by: .seconds(10))
        #expect(isLost)
    }

    @Test func `each frame has its own time, though one timer watches them all`() throws {
        let frame = try frame()
        try receive(frame.prefix(7))
        loop.advanceTime(by: .seconds(6))
        try receive(frame.dropFirst(7) + frame.prefix(7))
        loop.advanceTime(by: .seconds(9))
        #expect(!isLost)
        loop.advanceTime(by: .seconds(1))
        #expect(isLost)
    }
}
