import BrokerJSON

/// The part of a command's input that a JSON Pointer into a job's message leads to.
enum JobPlace: Sendable, Equatable {
    /// The job as a whole, or nothing that the user gave as a part.
    case job
    /// A place in the message of a job that another command sent.
    case message(ofJob: String, path: String?)
    /// One of the keys among the arguments, counted from 1.
    case key(Int, text: String)
    /// Records of one input, counted from 1 in it. Of one record, the line on which it begins.
    case records(ClosedRange<Int>, of: String, line: Int? = nil)

    var text: String {
        switch self {
        case .job: "the job"
        case .message(let id, let path): "job \(id)" + (path.map { ", \($0)" } ?? "")
        case .key(let number, let text): "key \(number) (\(text))"
        case .records(let records, let input, let line?): "\(input), line \(line) (record \(records.lowerBound))"
        case .records(let records, let input, nil) where records.count == 1: "record \(records.lowerBound) of \(input)"
        case .records(let records, let input, nil):
            "records \(records.lowerBound) to \(records.upperBound) of \(input)"
        }
    }

    /// Writes members of an object: numbers, for programs.
    func writeMembers(to writer: inout JSONWriter) {
        func number(_ key: String, _ value: Int) {
            writer.key(key)
            writer.integer(value)
        }
        switch self {
        case .job, .message: break
        case .key(let position, _): number("key", position)
        case .records(let records, let input, let line):
            writer.member("file", input)
            if let line { number("line", line) }
            guard line == nil else { return number("record", records.lowerBound) }
            writer.key("records")
            writer.array { writer in
                writer.integer(records.lowerBound)
                writer.integer(records.upperBound)
            }
        }
    }
}
