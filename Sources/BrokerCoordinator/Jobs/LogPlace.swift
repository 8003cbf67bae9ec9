/// The place of a job in the log.
struct LogPlace: Equatable {
    /// The job's sequence. Nil for a job that the log refused.
    let position: Int64?
    /// When the job was accepted, in milliseconds since 1970; the log gives no time before that of an earlier place.
    let time: Int64
    /// When the log began to write the job, and when it was durable, in microseconds of the monotonic clock; 0 without a
    /// journal. For a shared log only the second is known.
    var writtenAt: Int64 = 0
    var durableAt: Int64 = 0
}
