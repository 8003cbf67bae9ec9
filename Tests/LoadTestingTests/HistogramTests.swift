@testable import LoadTesting
import Testing

@Suite(.timeLimit(.minutes(5)))
struct HistogramTests {
    @Test func `an empty histogram has no percentile`() { #expect(LatencyHistogram().microseconds(99) == 0) }

    @Test func `jobs before the measured time are not counted`() {
        var recorder = RunRecorder()
        recorder.sent(late: 5, contentBytes: 10, frameBytes: 10)
        recorder.ended(records: 1, latency: 5)
        recorder = RunRecorder()
        // One of the warm-up that ends later counts for the rate alone.
        recorder.ended(records: 1, latency: nil)
        recorder.ended(records: 1, latency: 7)
        recorder.closeInterval(at: 1)
        #expect(recorder.jobs == 2)
        #expect(recorder.completed.count == 1)
        #expect(recorder.sentJobs == 0)
    }
}
