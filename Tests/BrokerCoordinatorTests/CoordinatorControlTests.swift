import BrokerModel
import BrokerStore
import Testing
import TestSupport

@testable import BrokerCoordinator

/// Cancelled jobs, and a paused writer.
@Suite(.timeLimit(.minutes(5))) struct CoordinatorControlTests {
    private let model =
        #"{"entities": {"Row": {"identity": "id", "attributes": {"id": "integer64", "value": "integer64"}}}}"#
    private let otherUser = JobOwner(user: 54_321)

    private func row(_ id: Int, _ value: Int = 0) -> String { "{\"Row\": {\"id\": \(id), \"value\": \(value)}}" }

    @Test func `a cancelled job ends at once, changes nothing, and fills its ticket`() throws {
        let test = try TestCoordinator(model)
        _ = test.coordinator.pause()
        for number in 1...3 { test.submit(row(number), id: "\(number)", wantsAcceptance: true) }
        test.events.waitUntil("accepted 3 3")
        #expect(test.cancel("2") == "cancelled")
        let end = test.events.ends(1)[0]
        #expect(end.id == "2" && end.sequence == 2 && end.code == "cancelled")
        #expect(try test.rows("SELECT count(*) FROM Row") == ["0"])
        test.coordinator.resume()
        #expect(test.events.ends(3).map(\.sequence) == [2, 1, 3])
        #expect(try test.rows("SELECT id FROM Row ORDER BY id") == ["1", "3"])
        #expect(
            try test.rows("SELECT sequence, id, failed FROM _broker_jobs ORDER BY sequence")
                == ["1|1|0", "2|2|1", "3|3|0"])
        #expect(test.await("2").ending?.code == "cancelled")
    }

    @Test func `jobs are accepted and staged during a pause, and merged afterwards`() throws {
        let test = try TestCoordinator(model)
        _ = test.coordinator.pause()
        for number in 1...20 { test.submit(row(number), id: "\(number)") }
        test.waitUntil(#""inFlight":20"#)
        #expect(test.statistics.contains(#""paused":true"#))
        #expect(test.events.all.isEmpty)
        test.coordinator.resume()
        #expect(test.events.ends(20).map(\.sequence) == (1...20).map { $0 })
        #expect(test.statistics.contains(#""paused":false"#))
    }

    @Test func `a fetch waits for the jobs of its own source that are held back, and for no others`() throws {
        let test = try TestCoordinator(model)
        _ = test.coordinator.pause()
        test.submit(row(1), id: "a", from: 1)
        let answers = Monitor<[Int: String]>([:])
        for source in [1, 2] {
            let request = try test.coordinator.plan.fetchRequest(FetchDescription(entity: "Row"))
            test.coordinator.fetch(request, from: source) { end in
                answers.broadcast {
                    if case .found(let objects) = end { $0[source] = String(decoding: objects.bytes, as: UTF8.self) }
                    return true
                }
            }
        }
        #expect(answers.patiently("the other source's fetch") { $0[2] } == "[]")
        #expect(answers.withLock { $0[1] } == nil)
        test.coordinator.resume()
        #expect(answers.patiently("the source's own fetch") { $0[1] }.hasPrefix(#"[{"id":1,"#))
    }

    @Test func `a server that refuses new jobs holds nothing back`() throws {
        let test = try TestCoordinator(model)
        _ = test.coordinator.pause()
        test.submit(row(1), id: "a")
        test.waitUntil(#""inFlight":1"#)
        test.coordinator.refuseNewJobs()
        #expect(test.events.ends(1).map(\.id) == ["a"])
        // Too late to hold anything.
        _ = test.coordinator.pause()
        #expect(test.statistics.contains(#""paused":false"#))
    }

    @Test func `a job that is being staged is cancelled, too`() throws {
        let test = try TestCoordinator(model)
        _ = test.coordinator.pause()
        let rows = (1...20_000).map { "{\"id\": \($0)}" }.joined(separator: ",")
        test.submit("{\"Row\": [\(rows)]}", id: "large", wantsAcceptance: true)
        test.events.waitUntil("accepted large 1")
        #expect(test.cancel("large") == "cancelled")
        test.submit(row(7), id: "small")
        test.coordinator.resume()
        #expect(test.events.ends(2).map(\.code) == ["cancelled", nil])
        #expect(try test.rows("SELECT id FROM Row") == ["7"])
    }

    @Test func `a cancelled id can be used again, and an ended job is too late to cancel`() throws {
        let test = try TestCoordinator(model)
        _ = test.coordinator.pause()
        test.submit(row(1), id: "a", wantsAcceptance: true)
        test.events.waitUntil("accepted a 1")
        #expect(test.cancel("a") == "cancelled")
        test.submit(row(1, 5), id: "a", wantsAcceptance: true)
        test.events.waitUntil("accepted a 2")
        test.coordinator.resume()
        #expect(test.events.ends(2).map(\.code) == ["cancelled", nil])
        #expect(try test.rows("SELECT value FROM Row") == ["5"])
        #expect(test.cancel("a") == "tooLate")
        #expect(test.cancel("nobody's") == "unknown")
        #expect(test.await("a").ending?.code == nil)
    }

    @Test func `jobs that were sent twice are cancelled together`() throws {
        let test = try TestCoordinator(model)
        _ = test.coordinator.pause()
        for _ in 0..<2 { test.submit(row(1), id: "a", wantsAcceptance: true) }
        test.events.waitUntil("accepted a 2")
        #expect(test.cancel("a") == "cancelled")
        test.coordinator.resume()
        #expect(test.events.ends(2).map(\.code) == ["cancelled", "cancelled"])
        #expect(try test.rows("SELECT count(*) FROM Row") == ["0"])
    }

    @Test func `a caller that awaits a job gets its cancellation at once`() throws {
        let test = try TestCoordinator(model)
        _ = test.coordinator.pause()
        test.submit(row(1), id: "a", wantsAcceptance: true)
        test.events.waitUntil("accepted a 1")
        let awaited = test.startAwaiting("a")
        #expect(test.cancel("a") == "cancelled")
        #expect(awaited.answer.ending?.code == "cancelled")
    }

    @Test func `an await after a cancel is answered at once, while merging is paused`() throws {
        let test = try TestCoordinator(model)
        test.submit(row(1), id: "done")
        _ = test.events.ends(1)
        _ = test.coordinator.pause()
        for id in ["a", "a", "done", "b"] { test.submit(row(2), id: id, wantsAcceptance: true) }
        test.events.waitUntil("accepted b 5")
        for id in ["a", "done", "b"] { #expect(test.cancel(id) == "cancelled") }
        let end = test.await("a").ending
        #expect(end?.code == "cancelled")
        #expect(end?.sequence == 3)
        #expect(test.admitAwaiting("b").answer.ending?.code == "cancelled")
        // The client gets the committed outcome of the id.
        #expect(test.await("done").ending?.sequence == 1)
        // A job that was sent again may still be committed.
        test.submit(row(3), id: "a", wantsAcceptance: true)
        test.events.waitUntil("accepted a 6")
        let awaited = test.startAwaiting("a")
        test.coordinator.resume()
        #expect(awaited.answer.ending?.sequence == 6)
        #expect(test.await("b").ending?.code == "cancelled")
    }

    @Test func `no client can cancel, await or repeat another user's job`() throws {
        let test = try TestCoordinator(model)
        _ = test.coordinator.pause()
        test.submit(row(1), id: "a", wantsAcceptance: true, as: JobOwner(user: 12_345))
        test.events.waitUntil("accepted a 1")
        #expect(test.cancel("a", as: otherUser) == "unknown")
        test.submit(row(1), id: "a", as: otherUser)
        test.coordinator.resume()
        #expect(test.events.ends(2).map(\.code) == [nil, "idConflict"])
        let asked = Monitor<Awaited?>(nil)
        test.coordinator.await("a", as: otherUser) { asked.notify($0) }
        #expect(asked.answer == .unknown)
        #expect(test.cancel("a", as: otherUser) == "unknown")
        // The server's own user sees it all.
        #expect(test.await("a").ending?.sequence == 1)
        test.submit(row(1), id: "a")
        #expect(test.events.ends(3)[2].isDuplicate)
    }

    @Test func `a checkpoint empties the WAL`() throws {
        let test = try TestCoordinator(model)
        for number in 1...50 { test.submit(row(number), id: "\(number)") }
        _ = test.events.ends(50)
        let status = Monitor<WALStatus?>(nil)
        test.coordinator.checkpoint { result in
            status.broadcast {
                $0 = try? result.get()
                return true
            }
        }
        let log = status.patiently("the checkpoint") { $0 }
        #expect(log.bytes == 0 && log.uncheckpointedPages == 0)
        test.submit(row(51), id: "51")
        _ = test.events.ends(51)
        #expect(try test.rows("SELECT count(*) FROM Row") == ["51"])
    }
}

@Suite(.timeLimit(.minutes(5))) struct JobProgressTests {
    @Test func `progress is sent at once, then ten times a second at most, and nothing is counted twice`() {
        let events = Monitor<[String]>([])
        let completions = SerialThread(named: "test")
        let progress = JobProgress(JobID("a"), waitsForAcceptance: false, completions) { event in
            if case .progress(let id, let staged, let merged) = event {
                events.withLock { $0.append("\(id) \(staged) \(merged)") }
            }
        }
        let start = monotonicMicroseconds()
        progress.note(staged: 10)
        var count = 1
        while events.withLock({ $0.count }) < 3 {
            progress.note(merged: 1)
            count += 1
        }
        let tenths = Int(monotonicMicroseconds() - start) / 100_000
        completions.stop()
        let lines = events.withLock { $0 }
        #expect(lines.first == "a 10 0")
        #expect(
            count > lines.count && lines.count <= tenths + 1, "\(lines) of \(count) in \(tenths) tenths of a second")
    }

    @Test func `no event precedes the acceptance, and it is sent at once`() {
        let events = Monitor<[String]>([])
        let completions = SerialThread(named: "test")
        let progress = JobProgress(JobID("a"), waitsForAcceptance: true, completions) { event in
            if case .progress(_, let staged, let merged) = event {
                events.withLock { $0.append("\(staged) \(merged)") }
            }
        }
        progress.note(staged: 10)
        progress.note(merged: 1)
        completions.run { events.withLock { $0.append("accepted") } }
        completions.run { progress.accepted() }
        completions.run { events.withLock { $0.append("ended") } }
        completions.stop()
        #expect(events.withLock { $0 } == ["accepted", "10 1", "ended"])
    }
}
