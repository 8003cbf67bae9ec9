import Broker
import Foundation

/// Lines of a file as one JSON array.
struct Batch {
    /// The position of its first line in the file.
    let offset: Int
    /// The numbers of the lines.
    private(set) var lines: [Int] = []
    private var text: [UInt8] = []

    init(offset: Int) { self.offset = offset }

    var json: RawJSON { RawJSON([UInt8(ascii: "[")] + text + [UInt8(ascii: "]")]) }

    mutating func append(_ record: Data, line: Int) {
        if !lines.isEmpty { text.append(UInt8(ascii: ",")) }
        text += record
        lines.append(line)
    }
}
