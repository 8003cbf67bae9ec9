import BrokerJSON
@testable import LoadTesting
import BrokerWire
import Testing

@Suite(.timeLimit(.minutes(5)))
struct RecordMixTests {
    @Test func `the shares of a mix are exact in each of its periods`() throws {
        let mix = try RecordMix(parsing: "new:80,changed:10,unchanged:5,invalid:5")
        #expect(mix.period == 20)
        var order = MixOrder(mix, seed: 11)
        for _ in 0..<50 {
            var counts: [RecordKind: Int] = [:]
            for _ in 0..<20 { counts[order.next(), default: 0] += 1 }
            #expect(counts == [.new: 16, .changed: 2, .unchanged: 1, .invalid: 1])
        }
    }

    @Test(arguments: [
        ("", "no KIND:SHARE"), ("new", "no KIND:SHARE"), ("old:1", "no KIND:SHARE"), ("new:-1", "no KIND:SHARE"),
        ("new:1,new:2", "two shares"), ("new:0", "all shares are 0"), ("new:9223372036854775807,changed:2", "add up"),
    ])
    func `an invalid mix is refused with its name`(text: String, message: String) {
        let error = #expect(throws: LoadError.self) { try RecordMix(parsing: text) }
        #expect(error?.code == .usage)
        #expect(error?.message.contains(message) == true, "\(error as Any)")
    }

    /// The records of some jobs by their identity, in order.
    private func records(_ options: JobOptions, jobs: Int) throws -> [(id: Int, text: String)] {
        var source = JobSource(options)
        return try (0..<jobs).flatMap { _ in
            let document = try JSONDocument(parsing: JSONText(copying: source.nextRecords()))
            return document.root.elements.map {
                (Int($0["id"]?.int64 ?? -1), String(decoding: $0.jsonText, as: UTF8.self))
            }
        }
    }

    @Test func `an unchanged record is as it was sent last, and a changed one is not`() throws {
        var before = JobOptions(RecordOptions())
        before.recordsOfJob = 30
        var stored: [Int: String] = [:]
        for (id, text) in try records(before, jobs: 1) { stored[id] = text }
        let mix = try RecordMix(parsing: "new:1,changed:2,unchanged:3")
        var options = JobOptions(RecordOptions(), mix)
        options.recordsOfJob = 6
        options.existing = 30
        var counts: [RecordKind: Int] = [:]
        for (id, text) in try records(options, jobs: 100) {
            let kind: RecordKind = stored[id] == nil ? .new : stored[id] == text ? .unchanged : .changed
            counts[kind, default: 0] += 1
            stored[id] = text
        }
        #expect(counts == [.new: 100, .changed: 200, .unchanged: 300])
    }

    @Test func `a job is what the server reads, with an id of its own`() throws {
        var options = JobOptions(RecordOptions())
        options.recordsOfJob = 2
        options.onInvalid = .skip
        options.wantsAccepted = true
        var source = JobSource(options)
        for number in 0..<3 {
            let content = source.next()
            let envelope = try ClientEnvelope.decode(parsing: JSONText(copying: content))
            guard case .job = envelope.message else {
                Issue.record("no job")
                continue
            }
            #expect(envelope.id == "\(options.run)-\(number)")
            withExtendedLifetime(envelope.document) {
                #expect(envelope.document.root["onInvalid"]?.string == "skip")
                #expect(envelope.document.root["notify"]?.elements.map(\.string) == ["accepted", "completed"])
            }
        }
        #expect(JobOptions(RecordOptions()).run != JobOptions(RecordOptions()).run)
    }
}
