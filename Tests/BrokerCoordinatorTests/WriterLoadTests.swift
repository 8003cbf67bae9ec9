import Testing

@testable import BrokerCoordinator

/// When the writer is what all else waits for.
@Suite(.timeLimit(.minutes(5))) struct WriterLoadTests {
    @Test func `a writer that has done nothing is not busy`() { #expect(!WriterLoad().isBusy) }

    @Test func `it is busy while it waits for less than a tenth of the time that it works`() {
        var load = WriterLoad()
        for _ in 0..<20 { load.note(waited: 8, worked: 100) }
        #expect(load.isBusy)
        for _ in 0..<20 { load.note(waited: 12, worked: 100) }
        #expect(!load.isBusy)
    }

    @Test func `a short wait does not end the busy state, and a wait longer than the threshold does`() {
        var load = WriterLoad()
        for _ in 0..<20 { load.note(waited: 0, worked: 100) }
        let patience = load.patience
        #expect((30...40).contains(patience))
        var other = load
        load.note(waited: patience / 2, worked: 0)
        #expect(load.isBusy)
        other.note(waited: patience, worked: 0)
        #expect(!other.isBusy)
    }

    @Test func `it is not busy for long after a turn that took an hour`() {
        var load = WriterLoad()
        load.note(waited: 0, worked: 3_600_000_000)
        #expect(load.isBusy && load.patience < WriterLoad.longestTurn)
    }

    @Test func `old times do not count`() {
        var load = WriterLoad()
        load.note(waited: 1_000_000_000, worked: 0)
        for _ in 0..<100 { load.note(waited: 0, worked: 100) }
        #expect(load.isBusy)
    }
}
