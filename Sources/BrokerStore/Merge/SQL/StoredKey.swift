internal import BrokerSchema
internal import BrokerStaging

/// Values of columns to compare and to look up by: the type of each and its bytes, compared like SQLite compares them
/// within one column.
struct StoredKey: Hashable {
    private(set) var bytes: [UInt8] = []
    private(set) var hasNull = false

    init(_ cells: [Cell]) {
        // One allocation for keys of numbers, which most are.
        bytes.reserveCapacity(9 * cells.count)
        for cell in cells {
            bytes.append(cell.kind.rawValue)
            switch cell.kind {
            case .integer: append(UInt64(bitPattern: cell.integer))
            case .real: append(cell.real.bitPattern)
            case .text, .blob:
                append(UInt64(cell.count))
                bytes += cell.bytes
            case .null, .absent, .object: hasNull = true
            }
        }
    }

    /// Binds the values, from the parameter `first` on.
    func bind(to statement: Statement, from first: Int) {
        var index = first
        forEachCell { cell in
            switch cell.kind {
            // The statement copies the bytes, because this key may be released before it.
            case .text: statement.bind(text: Array(cell.bytes), at: index)
            case .blob: statement.bind(blob: Array(cell.bytes), at: index)
            default: statement.bind(cell, at: index)
            }
            index += 1
        }
    }

    /// The key's only value, if it is an integer.
    var integer: Int64? {
        guard bytes.count == 9, bytes[0] == Cell.Kind.integer.rawValue else { return nil }
        return bytes.withUnsafeBytes { Int64(bigEndian: $0.loadUnaligned(fromByteOffset: 1, as: Int64.self)) }
    }

    /// Calls `body` with each value in order. The value is valid during the call.
    func forEachCell(_ body: (Cell) -> Void) {
        bytes.withUnsafeBufferPointer { bytes in
            var place = 0
            func word() -> UInt64 {
                defer { place += 8 }
                let bytes = UnsafeRawBufferPointer(bytes)
                return UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: place, as: UInt64.self))
            }
            while place < bytes.count, let kind = Cell.Kind(rawValue: bytes[place]) {
                place += 1
                switch kind {
                case .integer: body(.integer(Int64(bitPattern: word())))
                case .real: body(.real(Double(bitPattern: word())))
                case .text, .blob:
                    let count = Int(word())
                    let content = UnsafeBufferPointer(rebasing: bytes[place..<place + count])
                    body(kind == .text ? .text(content) : .blob(content))
                    place += count
                case .null, .absent, .object: body(.null)
                }
            }
        }
    }

    /// Calls `body` with all values. They are valid during the call.
    func withCells(_ body: ([Cell]) -> Void) {
        bytes.withUnsafeBufferPointer { _ in
            var cells: [Cell] = []
            forEachCell { cells.append($0) }
            body(cells)
        }
    }

    /// The values as text for error messages.
    var described: String {
        var words: [String] = []
        forEachCell { cell in
            switch cell.kind {
            case .integer: words.append(String(cell.integer))
            case .real: words.append(cell.real.description)
            case .text: words.append(String(decoding: cell.bytes, as: UTF8.self).quotedBriefly)
            default: words.append("(binary)")
            }
        }
        return words.joined(separator: ", ")
    }

    /// The highest byte comes first, so that keys of rows in ascending order are ascending, too, and cheap to store.
    private mutating func append(_ word: UInt64) {
        withUnsafeBytes(of: word.bigEndian) { bytes += $0 }
    }
}
