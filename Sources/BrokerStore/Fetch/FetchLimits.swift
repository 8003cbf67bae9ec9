/// Limits of a fetch's reply, memory and work. A long fetch, and each part of a stream, may do as much work as a job.
package struct FetchLimits: Sendable {
    /// Bytes of the reply; objects that do not fit are left to another fetch, or to the next part of a stream.
    package var answerBytes: Int
    /// Bytes of a reply that holds one object only.
    package var objectBytes: Int
    /// Bytes of a reply that every frame holds, even if nothing in it can be compressed.
    package var certainBytes: Int
    /// Bytes of the objects that are collected before they are nested in one another.
    package var gatheredBytes: Int
    /// Steps of SQLite's virtual machine.
    package var steps: Int
    /// Units of a `WorkBudget`: of the bytes that are compared, and of patterns. A pattern that would exceed them is not
    /// begun: one alone may take a second.
    package var work: Int
    /// Processor time; nil for any time.
    package var microseconds: Int64?

    /// The work that one fetch may do, and a part of a stream: as much as a job.
    static let maximumWork = 300_000_000

    package init(
        answerBytes: Int, objectBytes: Int? = nil, certainBytes: Int, gatheredBytes: Int,
        steps: Int? = nil, work: Int? = nil, microseconds: Int64? = nil
    ) {
        self.answerBytes = answerBytes
        self.objectBytes = objectBytes ?? answerBytes
        self.certainBytes = certainBytes
        self.gatheredBytes = gatheredBytes
        self.steps = steps ?? Self.maximumWork
        self.work = work ?? Self.maximumWork
        self.microseconds = microseconds
    }

    /// A reply of ordinary JSON that a frame holds, within memory that a server can spare. Use it for one fetch at a
    /// time.
    package static let long = FetchLimits(answerBytes: 32 << 20, certainBytes: 15 << 20, gatheredBytes: 16 << 20)
    /// A part of a stream: 1 MiB, so that a stream needs little memory and its frames are made in turn with others';
    /// or one object, as large as it may be in a long reply.
    package static let part = FetchLimits(
        answerBytes: 1 << 20, objectBytes: long.objectBytes, certainBytes: long.certainBytes,
        gatheredBytes: long.gatheredBytes)
    /// Some milliseconds of work: requests of many clients at once are answered within a second.
    package static let brief = FetchLimits(
        answerBytes: 256 << 10, certainBytes: 256 << 10, gatheredBytes: 512 << 10, steps: 1_000_000, work: 1_000_000,
        microseconds: 10_000)
}

extension FetchLimits {
    /// A fetch that exceeds them is repeated with those of a long one.
    package var isBrief: Bool { microseconds != nil }

    /// Bytes of the objects that are read before the first of them is written. A stream holds that many while its
    /// client takes the parts before.
    var batchBytes: Int { min(gatheredBytes / 2, answerBytes) }
}
