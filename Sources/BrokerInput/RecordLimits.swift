/// What no record may exceed, whatever its format.
package struct RecordLimits {
    /// The limit for a message's nesting, less the containers that a job puts around a record.
    static let maximumDepth = 508
    static let tooDeep = "the record is nested deeper than \(maximumDepth) levels"

    /// The most that a message's content may be: no job can hold a larger record.
    package static let ofJobs = RecordLimits(maximumBytes: 256 << 20)

    let maximumBytes: Int

    var tooLarge: String { "the record is larger than \(maximumBytes >> 20) MiB, the most that a job may hold" }
}
