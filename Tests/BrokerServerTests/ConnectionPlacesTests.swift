import TestSupport
import Testing

@testable import BrokerServer

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
