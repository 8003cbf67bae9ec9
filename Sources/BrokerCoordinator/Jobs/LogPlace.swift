/// The place of a job in the log.
struct LogPlace: Equatable {
    /// The job's sequence. Nil for a job that the log refused.
    let position: Int64?
    /// When the job was accepted, in milliseconds since 1970; the log gives no time before that of an earlier place.
    let time: Int64
}
