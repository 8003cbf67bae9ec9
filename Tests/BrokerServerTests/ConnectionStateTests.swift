import BrokerCoordinator
import BrokerWire
import NIOCore
import TestSupport
import Testing

@testable import BrokerServer

/// The machine of one connection, driven without a channel.
@Suite(.timeLimit(.minutes(5))) struct ConnectionStateTests {
    private struct Conditions: ConnectionConditions {
        var coordinatorHasRoom = true
        var answersHaveRoom = true
        var leavesLittleUnread = true
        var isAllSent = true
        var mayLinger = true
    }

    private let small = frame(3)

    /// A frame of that many bytes without its length.
    private static func frame(_ count: Int) -> [UInt8] {
        withUnsafeBytes(of: UInt32(count).bigEndian) { Array($0) } + [UInt8](repeating: 7, count: count)
    }

    private func state(messages: Int = 4) -> ConnectionState {
        var state = ConnectionState(limits: FrameLimits(), messageLimit: messages)
        state.readRequested()
        return state
    }

    /// Takes the actions until there is none.
    private func actions(
        _ state: inout ConnectionState, _ conditions: Conditions = Conditions()
    ) throws -> [ConnectionState.Action] {
        var actions: [ConnectionState.Action] = []
        try state.checkInvariants()
        while let action = state.next(conditions) {
            try state.checkInvariants()
            actions.append(action)
            // No event needs more actions than this.
            try InvariantViolation.require(actions.count < 1_000, "the actions of an event end")
        }
        return actions
    }

    private func admissions(_ actions: [ConnectionState.Action]) -> [Int] {
        actions.compactMap { if case .admit(_, let ordinal, _) = $0 { ordinal } else { nil } }
    }

    @Test func `whole frames are admitted in order, and then the next bytes are read`() throws {
        var state = state()
        #expect(try actions(&state) == [.read])
        state.received(ByteBuffer(bytes: small + small + small.prefix(2)))
        state.readRequested()
        let found = try actions(&state)
        #expect(admissions(found) == [1, 2])
        #expect(found.last == .read)
    }

    @Test func `a message beyond the limit waits for an answer, and nothing is read meanwhile`() throws {
        var state = state(messages: 2)
        state.received(ByteBuffer(bytes: small + small + small))
        #expect(admissions(try actions(&state)) == [1, 2])
        #expect(try actions(&state) == [])
        state.answered(1)
        #expect(admissions(try actions(&state)) == [3])
        #expect(try actions(&state) == [])
        state.answered(1)
        #expect(try actions(&state) == [.read])
    }

    @Test func `a lack of room is waited for once, and by the resource that lacks it`() throws {
        var state = state()
        state.received(ByteBuffer(bytes: small + small + small))
        var full = Conditions(coordinatorHasRoom: false)
        // With nothing unanswered, a small message is admitted all the same.
        #expect(
            try actions(&state, full).map { admissions([$0]).first == 1 || $0 == .waitForRoom(.ofCoordinator) } == [
                true, true,
            ])
        #expect(try actions(&state, full) == [])
        state.roomAppeared()
        full = Conditions(answersHaveRoom: false)
        #expect(try actions(&state, full) == [.waitForRoom(.ofAnswers)])
        state.roomAppeared()
        #expect(admissions(try actions(&state)) == [2, 3])
    }

    @Test func `nothing is read or admitted while the client leaves much unread`() throws {
        var state = state()
        state.received(ByteBuffer(bytes: small))
        #expect(try actions(&state, Conditions(leavesLittleUnread: false)) == [])
        #expect(admissions(try actions(&state)) == [1])
    }

    @Test func `a large frame is read in its turn, which ends with the frame`() throws {
        var state = state()
        let large = Self.frame(100_000)
        state.received(ByteBuffer(bytes: large.prefix(8_000)))
        #expect(try actions(&state) == [.askForTurn(totalCount: 100_004)])
        state.readRequested()
        #expect(try actions(&state) == [], "nothing is read before the turn")
        state.turnCame()
        #expect(try actions(&state) == [.read])
        #expect(state.isAssembling)
        state.received(ByteBuffer(bytes: large.dropFirst(8_000)))
        let found = try actions(&state)
        #expect(admissions(found) == [1])
        #expect(found.contains(.leaveTurn))
        // A turn that comes too late is given back.
        state.turnCame()
        #expect(try actions(&state).first == .leaveTurn)
    }

    @Test func `a fault in a frame refuses that frame, after which input is discarded up to a limit`() throws {
        var state = state()
        state.received(ByteBuffer(bytes: small + [0xFF, 0xFF, 0xFF, 0xFF]))
        let found = try actions(&state, Conditions(isAllSent: false))
        #expect(admissions(found) == [1])
        guard case .refuse(let error, let ordinal)? = found.dropFirst().first else {
            Issue.record("no refusal: \(found)")
            return
        }
        #expect(error.code == .frameTooLarge && ordinal == 2)
        #expect(found.last == .read, "the rest of the input is read, so that the client can read the error")
        let wasTaking = state.breakOff()
        #expect(!wasTaking, "the connection is ending already")
        state.answered(1)
        #expect(try actions(&state) == [.closeOutput])
        state.readRequested()
        #expect(try actions(&state) == [.read])
        let piece = ByteBuffer(bytes: [UInt8](repeating: 0, count: 16 << 20))
        for _ in 0..<4 { state.received(piece) }
        #expect(try actions(&state) == [])
        state.received(ByteBuffer(bytes: [0]))
        #expect(try actions(&state) == [.close])
        #expect(try actions(&state) == [])
    }

    @Test func `the end of the input inside a frame is an error, and at its end is none`() throws {
        var cut = state()
        cut.received(ByteBuffer(bytes: small.prefix(5)))
        cut.inputClosed()
        guard case .refuse(let error, ordinal: 1)? = try actions(&cut).first else {
            Issue.record("no refusal")
            return
        }
        #expect(error.code == .malformedFrame)
        var whole = state()
        whole.received(ByteBuffer(bytes: small))
        whole.inputClosed()
        #expect(admissions(try actions(&whole)) == [1])
        #expect(whole.phase == .finishing)
        #expect(try actions(&whole) == [], "the message is answered first")
        whole.answered(1)
        #expect(try actions(&whole, Conditions(isAllSent: false)) == [], "the answer is sent first")
        #expect(try actions(&whole) == [.close])
    }

    @Test func `a server that stops handles whole frames and drops the rest`() throws {
        var state = state(messages: 1)
        _ = try actions(&state)
        state.received(ByteBuffer(bytes: small + small + small.prefix(5)))
        state.drain()
        #expect(admissions(try actions(&state)) == [1])
        state.readRequested()
        #expect(try actions(&state) == [])
        state.answered(1)
        #expect(admissions(try actions(&state)) == [2])
        #expect(state.phase == .finishing)
        state.answered(1)
        #expect(try actions(&state, Conditions(mayLinger: false)) == [.close])
    }

    @Test func `a server that stops gives back the turn of an incomplete large frame`() throws {
        var state = state()
        state.received(ByteBuffer(bytes: Self.frame(100_000).prefix(8_000)))
        #expect(try actions(&state) == [.askForTurn(totalCount: 100_004)])
        state.turnCame()
        _ = try actions(&state)
        state.drain()
        #expect(try actions(&state) == [.leaveTurn, .closeOutput])
    }

    /// Bytes arrive in pieces, and room, turns and answers come, in an order that a seed decides.
    @Test func `whatever the order of events, every frame is admitted once, in order, and the connection ends`() throws
    {
        var generator = SeededGenerator()
        for _ in 0..<300 { try runAtRandom(&generator) }
    }

    private func runAtRandom(_ generator: inout SeededGenerator) throws {
        let counts = (0..<Int.random(in: 1...12, using: &generator)).map { _ in
            [1, 20, 5_000, 20_000, 60_000].randomElement(using: &generator)!
        }
        var input = counts.flatMap { Self.frame($0) }[...]
        var state = ConnectionState(limits: FrameLimits(), messageLimit: Int.random(in: 1...3, using: &generator))
        var admitted: [Int] = []
        var (isReading, waitsForTurn, waitsForRoom, isClosed) = (false, false, false, false)
        for _ in 0..<20_000 where !isClosed {
            switch Int.random(in: 0..<6, using: &generator) {
            case 0: state.readRequested()
            case 1 where isReading && !input.isEmpty:
                isReading = false
                let piece = input.prefix(Int.random(in: 1...16_384, using: &generator))
                input = input.dropFirst(piece.count)
                state.received(ByteBuffer(bytes: piece))
            case 1 where isReading: state.inputClosed()
            case 2 where waitsForTurn:
                waitsForTurn = false
                state.turnCame()
            case 3 where waitsForRoom:
                waitsForRoom = false
                state.roomAppeared()
            case 4 where state.unanswered > 0: state.answered(1)
            default: break
            }
            let conditions = Conditions(
                coordinatorHasRoom: Bool.random(using: &generator), answersHaveRoom: Bool.random(using: &generator),
                leavesLittleUnread: Int.random(in: 0..<4, using: &generator) > 0)
            for action in try actions(&state, conditions) {
                switch action {
                case .admit(let bytes, let ordinal, _):
                    #expect(ordinal == admitted.count + 1)
                    admitted.append(bytes.payloadCount)
                case .askForTurn: waitsForTurn = true
                case .leaveTurn: waitsForTurn = false
                case .waitForRoom: waitsForRoom = true
                case .read: isReading = true
                case .close: isClosed = true
                case .refuse, .closeOutput: Issue.record("\(action)")
                }
            }
        }
        #expect(isClosed)
        #expect(admitted == counts)
    }
}
