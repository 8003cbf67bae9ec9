import BrokerJSON

/// The texts of a job's records, for the file of those that are rejected.
struct JobRecords: Sendable {
    /// A JSON array.
    let json: [UInt8]
    /// Where each record begins in it.
    let starts: [Int]

    /// The index of the record that a JSON Pointer into the job's message leads to, and the pointer from the record on;
    /// nil when it leads to none.
    func find(_ path: String?) -> (index: Int, path: String)? {
        // The operation may be in the job itself or in its list of operations.
        guard let path, let json = path.firstRange(of: "/json/") else { return nil }
        let rest = path[json.upperBound...]
        let end = rest.firstIndex(of: "/") ?? rest.endIndex
        guard let index = Int(rest[..<end]), starts.indices.contains(index) else { return nil }
        return (index, String(rest[end...]))
    }

    /// The record on one line: strings hold no line ends, which are escaped there.
    func line(_ index: Int) -> [UInt8] {
        let end = index + 1 < starts.count ? starts[index + 1] : json.count
        var text = json[starts[index]..<end - 1]
        for position in text.indices where text[position] == UInt8(ascii: "\n") || text[position] == UInt8(ascii: "\r")
        {
            text[position] = UInt8(ascii: " ")
        }
        return Array(text)
    }
}
