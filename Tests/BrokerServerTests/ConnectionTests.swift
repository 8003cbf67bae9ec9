import BrokerCoordinator
import BrokerWire
import NIOCore
import Synchronization
import TestSupport
import Testing

@testable import BrokerServer

/// The machine of one connection, driven without a channel.
@Suite(.timeLimit(.minutes(5))) struct ConnectionStateTests {
    private struct Conditions: ConnectionConditions {
        var coordinatorHasRoom = true
        var isWithinRate = true
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

    @Test func `a client whose user sends too many jobs is not read for a time, but what a stop finds is handled`()
        throws
    {
        var state = state()
        state.received(ByteBuffer(bytes: small))
        #expect(try actions(&state, Conditions(isWithinRate: false)) == [.waitForRoom(.ofRate)])
        #expect(try actions(&state, Conditions(isWithinRate: false)).isEmpty, "it waits once")
        state.roomAppeared()
        #expect(try admissions(actions(&state)) == [1])
        state.received(ByteBuffer(bytes: small))
        state.drain()
        #expect(try admissions(actions(&state, Conditions(isWithinRate: false))) == [2])
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

/// The memory that clients can make the server use.
@Suite(.timeLimit(.minutes(5))) struct ConnectionMemoryTests {
    private let ping = #"{"type": "ping"}"#

    /// A frame's beginning: a length, and so many bytes of what it promises.
    private func beginning(of length: Int, sent: Int) -> [UInt8] {
        (0..<4).map { UInt8(truncatingIfNeeded: length >> (24 - 8 * $0)) } + [UInt8](repeating: 7, count: sent)
    }

    @Test(.server) func `the memory of a connection is freed when it closes`() throws {
        let running = RunningServer.current
        for _ in 0..<150 { #expect(try running.connect().ask(ping).type == "pong") }
        // Inside of a frame, and with something unanswered.
        for _ in 0..<20 {
            try running.connect().send(bytes: beginning(of: 1_000_000, sent: 100_000))
            try running.connect().send(#"{"entity": "Department", "json": {"id": 1}}"#)
        }
        let last = try running.connect()
        // Answered once, it is one of the server's connections: connect returns before the server accepts.
        _ = try last.ask(ping)
        // The ends of the others are seen in the rounds that these take.
        for _ in 0..<10_000 where running.server.connectionCount > 1 { _ = try last.ask(ping) }
        #expect(running.server.connectionCount == 1)
    }

    @Test(.server) func `clients that stop inside of large frames do not hold up others`() throws {
        let running = RunningServer.current
        let stopped = try (0..<8).map { _ in try running.connect() }
        // More than both turns; what goes beyond them stays in the sockets.
        for client in stopped { try client.send(bytes: beginning(of: 16_000_000, sent: 100_000)) }
        #expect(try running.connect().ask(ping).type == "pong")
        let padding = SeededGenerator(seed: 1).text(count: 2_000_000)
        let job = #"{"entity": "Department", "json": {"id": 1}, "padding": "\#(padding)"}"#
        let client = try running.connect()
        let completed = try client.ask(job)
        #expect(completed.type == "completed", "\(completed.text)")
        #expect(running.log.line(.warning, "stopped arriving") != nil)
    }

    @Test(.server) func `a client is refused for the frame in which it stopped`() throws {
        let running = RunningServer.current
        let stopped = try (0..<2).map { _ in try running.connect() }
        for client in stopped {
            #expect(try client.ask(ping).type == "pong")
            // More than a socket holds: the server has begun to read it when all of it is sent.
            try client.send(bytes: beginning(of: 16_700_000, sent: 2_000_000))
        }
        let other = try running.connect()
        let padding = SeededGenerator(seed: 4).text(count: 2_000_000)
        try other.send(#"{"type": "ping", "padding": "\#(padding)"}"#)
        let error = try stopped[0].next()
        #expect(error.code == "busy")
        #expect(error["frame"] == "2")
    }

    @Test func `a client is refused for the frame for which there is no room`() async throws {
        try await RunningServer.run({
            $0.jobsPerConnection = 1
            $0.backlogBytes = 10_000
        }) { running in
            let operating = try running.connect()
            #expect(try operating.ask(#"{"type": "admin", "action": "pause"}"#).type == "done")
            let client = try running.connect()
            // Not read while the job is in flight, but for the end of what the client sends.
            try client.send(#"{"entity": "Department", "json": {"id": 1}}"#)
            let pings = try RawClient.frame(Array(ping.utf8))
            try client.send(bytes: Array(repeatElement(pings, count: 180_000 / pings.count).joined()))
            client.endSending()
            let error = try client.next()
            #expect(error.code == "busy")
            #expect(error["frame"] == "2")
            #expect(try operating.ask(#"{"type": "admin", "action": "resume"}"#).type == "done")
            #expect(try client.next().type == "completed")
        }
    }

    @Test(.server) func `a client that stops inside of a frame stays connected while no other waits`() throws {
        let running = RunningServer.current
        let padding = SeededGenerator(seed: 2).text(count: 200_000)
        let text = #"{"entity": "Department", "json": {"id": 1}, "padding": "\#(padding)"}"#
        let frame = try RawClient.frame(Array(text.utf8))
        let slow = try running.connect()
        try slow.send(bytes: Array(frame.prefix(150_000)))
        let other = try running.connect()
        for _ in 0..<1_000 { _ = try other.ask(ping) }
        try slow.send(bytes: Array(frame.dropFirst(150_000)))
        #expect(try slow.next().type == "completed")
    }

    @Test(.server) func `a large answer that is requested 150 times waits for its reader, which gets all of them`()
        async throws
    {
        let running = RunningServer.current
        let client = try running.connect()
        let records = (0..<20_000).map { #"{"id": \#($0 * 7_919 % 1_000_003)}"# }.joined(separator: ",")
        let job = #"{"id": "a", "reply": "keys", "entity": "Department", "json": [\#(records)]}"#
        #expect(try client.ask(job).type == "completed")
        for number in 0..<150 { try client.send(#"{"type": "await", "id": "a", "tag": \#(number)}"#) }
        let other = try running.connect()
        var most = 0
        for _ in 0..<200 {
            _ = try other.ask(ping)
            most = max(most, try await running.server.unreadBytes)
        }
        #expect(most < Connection.readAheadBytes + 1 << 20, "the answers are 20 MB and more")
        var tags: Set<String> = []
        for _ in 0..<150 {
            let answer = try client.next()
            #expect(answer["changes.Department.inserted"] == "20000")
            #expect(answer["keys"] != nil)
            tags.insert(answer["tag"] ?? "")
        }
        #expect(tags.count == 150)
    }

    @Test(.server) func `answers to jobs keep their order, however slowly they are read`() throws {
        let running = RunningServer.current
        let client = try running.connect()
        let count = 20
        for number in 0..<count {
            // Large ones and small ones, and one that fails.
            let size = number % 3 == 0 ? 1 : 5_000
            let records = (0..<size).map { #"{"id": \#($0 * 7_919 % 1_000_003), "name": "\#(number)"}"# }
                .joined(separator: ",")
            let name = number % 10 == 9 ? "1" : records
            try client.send(
                #"{"id": "\#(number)", "reply": "keys", "tag": \#(number), "entity": "Department", "json": [\#(name)]}"#
            )
        }
        let other = try running.connect()
        while try other.ask(#"{"type": "stats"}"#)["jobs.inFlight"] != "0" {}
        for number in 0..<count {
            let answer = try client.next()
            #expect(answer["id"] == "\(number)")
            #expect(answer["tag"] == "\(number)")
            #expect(answer.sequence == number + 1)
            #expect(answer.type == (number % 10 == 9 ? "failed" : "completed"))
            if number % 3 != 0, number % 10 != 9 { #expect(answer["keys.Department"] != nil) }
        }
    }

    @Test(.server({ $0.cutOffBytes = 1 << 20 }))
    func `a client that leaves too much unread is cut off, and its jobs take effect`() async throws {
        let running = RunningServer.current
        let client = try running.connect()
        try client.send(#"{"id": "a", "notify": [], "entity": "Department", "json": {"id": 1}}"#)
        let padding = SeededGenerator(seed: 3).text(count: 60_000)
        let ping = try RawClient.frame(Array(#"{"type": "ping", "padding": "\#(padding)"}"#.utf8))
        #expect(throws: RawClient.Failure.self) {
            for _ in 0..<3_000 { try client.send(bytes: ping) }
        }
        #expect(running.log.line(.warning, "cut off") != nil)
        #expect(try running.connect().ask(#"{"type": "await", "id": "a"}"#).type == "completed")
    }

    @Test(.server) func `a tag of 1,024 bytes comes back, a longer one is refused`() throws {
        let running = RunningServer.current
        let client = try running.connect()
        let longest = String(repeating: "t", count: 1_022)
        #expect(try client.ask(#"{"type": "ping", "tag": "\#(longest)"}"#)["tag"] == longest)
        let refused = try client.ask(#"{"type": "ping", "tag": "\#(longest)x"}"#)
        #expect(refused.code == "unsupportedMessage")
        #expect(refused["error.path"] == "/tag")
        #expect(refused["tag"] == nil)
        let job = #"{"id": "j", "tag": [\#(longest)1], "entity": "Department", "json": {"id": 1}}"#
        let refusedJob = try client.ask(job.replacing(longest, with: String(repeating: "1", count: 2_000)))
        #expect(refusedJob.code == "unsupportedMessage")
        #expect(refusedJob["id"] == "j")
        #expect(try client.ask(#"{"type": "hello"}"#)["limits.maximumTagBytes"] == "1024")
    }
}

extension SeededGenerator {
    /// Letters that do not compress to much less than six bits each.
    func text(count: Int) -> String {
        var generator = self
        let letters = Array("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_".utf8)
        return String(decoding: (0..<count).map { _ in letters[Int(generator.next() % 64)] }, as: UTF8.self)
    }
}

/// Which clients get a place, and how long one that says nothing keeps it.
@Suite(.timeLimit(.minutes(5))) struct ConnectionPlacesTests {
    /// How many places a user gets from processes of its own.
    private func take(
        _ places: inout ConnectionPlaces, user: UInt32, processes: Range<Int32>, isPrivileged: Bool = false
    )
        -> Int
    {
        processes.count {
            places.take(PeerCredentials(process: $0, user: user), isPrivileged: isPrivileged)
        }
    }

    private func takes(_ places: inout ConnectionPlaces, _ peer: PeerCredentials, isPrivileged: Bool) -> Bool {
        places.take(peer, isPrivileged: isPrivileged)
    }

    @Test func `a user may have another place while it has no more than are free`() {
        var places = ConnectionPlaces(1_024)
        // 16 of them are reserved.
        #expect(take(&places, user: 1, processes: 0..<2_000) == 504 + 1)
        #expect(take(&places, user: 2, processes: 0..<2_000) == 252)
        #expect(take(&places, user: 3, processes: 0..<2_000) > 100)
        #expect(take(&places, user: 4, processes: 1..<2) == 1)
        #expect(places.places(of: 1) == 505)
    }

    @Test func `root and the server's own user may have all places that are not reserved`() {
        var places = ConnectionPlaces(1_024)
        #expect(take(&places, user: 0, processes: 0..<1, isPrivileged: true) == 1)
        var count = 1
        while places.take(PeerCredentials(process: 0, user: 0), isPrivileged: true) { count += 1 }
        #expect(count == 1_008)
    }

    @Test func `a place that is left is free for another client`() {
        var places = ConnectionPlaces(2)
        let (one, other) = (PeerCredentials(process: 1, user: 1), PeerCredentials(process: 2, user: 1))
        #expect(takes(&places, one, isPrivileged: false))
        #expect(takes(&places, other, isPrivileged: false))
        #expect(!takes(&places, one, isPrivileged: true))
        places.leave(other)
        #expect(takes(&places, one, isPrivileged: false))
        places.leave(one)
        places.leave(one)
        #expect(places.places(of: 1) == 0)
    }

    @Test func `a process of a privileged user gets a reserved place whatever others hold, and only one`() {
        var places = ConnectionPlaces(64)
        for user in 1...500 as ClosedRange<UInt32> { _ = take(&places, user: user, processes: 0..<64) }
        #expect(!takes(&places, PeerCredentials(process: 1, user: 501), isPrivileged: false))
        let process = PeerCredentials(process: 100, user: 0)
        #expect(takes(&places, process, isPrivileged: true))
        #expect(!takes(&places, process, isPrivileged: true), "the other reserved ones are for other processes")
        #expect(take(&places, user: 0, processes: 101..<200, isPrivileged: true) == 7)
        places.leave(process)
        #expect(takes(&places, PeerCredentials(process: 300, user: 0), isPrivileged: true))
    }

    @Test func `a connection on which nothing comes is closed, and one that spoke stays`() async throws {
        try await RunningServer.run({ $0.silence = .milliseconds(20) }) { running in
            let silent = try running.connect()
            let error = try silent.next()
            #expect(error.code == "busy")
            #expect(error["error.message"]?.contains("hello") == true)
            #expect(try silent.receive() == nil)
            // Answered, or closed before the message came: the time is short.
            let client = try running.connect()
            guard (try? client.ask(#"{"type": "hello"}"#).type) == "welcome" else { return }
            #expect(try running.connect().next().code == "busy")
            #expect(try client.ask(#"{"type": "ping"}"#).type == "pong")
        }
    }
}

@Suite(.timeLimit(.minutes(5))) struct SharedBudgetTests {
    /// Adds steps of one byte for the process until it has no room.
    private func fill(_ budget: SharedBudget, _ process: Int32) {
        while budget.hasRoom(process) { budget.add(1, process) }
    }

    @Test func `random processes never fill the budget, and a process that holds nothing has room`() {
        var generator = SeededGenerator(seed: 25)
        let budget = SharedBudget(byteLimit: 10_000)
        var shares: [Int32: Int] = [:]
        for step in 0..<20_000 {
            let process = Int32.random(in: 1...40, using: &generator)
            if Bool.random(using: &generator), budget.hasRoom(process) {
                let bytes = Int.random(in: 1...20, using: &generator)
                budget.add(bytes, process)
                shares[process, default: 0] += bytes
            } else if let held = shares[process], held > 0, step % 3 == 0 {
                let bytes = Int.random(in: 1...held, using: &generator)
                budget.remove(bytes, process)
                shares[process] = held - bytes
            }
            #expect(budget.held == shares.values.reduce(0, +))
            #expect(budget.held < budget.byteLimit + 20)
            if budget.held < budget.byteLimit { #expect(budget.hasRoom(99)) }
        }
    }
}

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

extension ConnectionState {
    /// Holds after every event and action:
    ///
    /// 1. The answers are those of admitted messages, and no more messages are unanswered than are allowed.
    /// 2. Bytes of frames are held only while frames are taken.
    /// 3. A large frame is held only in its turn.
    /// 4. Nothing is discarded while frames are taken.
    func checkInvariants() throws(InvariantViolation) {
        try InvariantViolation.require(unanswered >= 0 && unanswered <= admitted, "only admitted messages are answered")
        try InvariantViolation.require(
            unanswered <= max(1, messageLimit), "the number of unanswered messages is limited")
        try InvariantViolation.require(
            takesFrames || assembler.unfinishedCount == 0, "an ending connection holds no frame")
        try InvariantViolation.require(!assembler.isAssembling || turn == .given, "a large frame is read in its turn")
        try InvariantViolation.require(turn == .none || takesFrames, "an ending connection has no turn")
        try InvariantViolation.require(
            discardedBytes == 0 || !takesFrames, "nothing is discarded while frames are taken")
    }
}
