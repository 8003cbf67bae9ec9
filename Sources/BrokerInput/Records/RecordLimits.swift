/// Limits of a record in any format.
package struct RecordLimits {
    /// The limit for a message's nesting, less the containers that a job adds around a record.
    package static let maximumDepth = 508
    static let tooDeep = "the record is nested deeper than \(maximumDepth) levels"

    /// The maximum content of a message: no job can contain a larger record.
    package static let ofJobs = RecordLimits(maximumBytes: 256 << 20)

    let maximumBytes: Int

    var tooLarge: String { "the record is larger than \(maximumBytes >> 20) MiB, the most that a job may hold" }
}
