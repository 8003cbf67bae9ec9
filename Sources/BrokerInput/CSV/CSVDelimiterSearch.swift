/// Finds the delimiter in the header of CSV: the one that divides it into most fields. Of several, a comma wins.
struct CSVDelimiterSearch {
    /// All bytes since the last ``takeBlank()``.
    private(set) var bytes: [UInt8] = []
    private var counts = [Int](repeating: 0, count: CSVDelimiter.common.count)
    private var isQuoted = false
    private var hasText = false
    private(set) var isComplete = false

    private static let byteOrderMark: [UInt8] = [0xEF, 0xBB, 0xBF]

    /// Adds bytes of the input, each of which is read once.
    mutating func append(_ more: [UInt8]) {
        for byte in more {
            guard !isComplete else { break }
            switch byte {
            // A doubled quote ends the quotes and begins them again.
            case UInt8(ascii: "\""): isQuoted.toggle()
            // Empty lines before the header are ignored.
            case UInt8(ascii: "\n"): isComplete = hasText && !isQuoted
            case UInt8(ascii: "\r"): break
            // A fault, wherever it is.
            case 0: isComplete = true
            case _ where Self.byteOrderMark.contains(byte): break
            default:
                hasText = true
                guard !isQuoted else { break }
                if let index = CSVDelimiter.common.firstIndex(where: { $0.byte == byte }) { counts[index] += 1 }
            }
        }
        bytes += more
    }

    /// Returns and forgets the bytes of empty lines; nil when the header has begun.
    mutating func takeBlank() -> [UInt8]? {
        guard !hasText, !isQuoted, !isComplete else { return nil }
        defer { bytes = [] }
        return bytes
    }

    /// The delimiter by the bytes so far.
    var found: CSVDelimiter {
        var best = 0
        for index in counts.indices where counts[index] > counts[best] { best = index }
        return CSVDelimiter.common[best]
    }
}
