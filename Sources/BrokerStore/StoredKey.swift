internal import BrokerStaging

/// Values of columns as something to compare and to look up by: the kind of each and its bytes, as SQLite compares them
/// within one column.
struct StoredKey: Hashable {
    private var bytes: [UInt8] = []
    private(set) var hasNull = false

    init(_ cells: [Cell]) {
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

    /// Binds the values, from that parameter on.
    func bind(to statement: Statement, from first: Int) {
        var rest = bytes[...]
        func word() -> UInt64 {
            defer { rest = rest.dropFirst(8) }
            return rest.prefix(8).withUnsafeBytes { $0.loadUnaligned(as: UInt64.self) }
        }
        var index = first
        while let kind = rest.popFirst().flatMap(Cell.Kind.init) {
            switch kind {
            case .integer: statement.bind(Int64(bitPattern: word()), at: index)
            case .real: statement.bind(.real(Double(bitPattern: word())), at: index)
            case .text, .blob:
                let count = Int(word())
                let content = Array(rest.prefix(count))
                if kind == .text {
                    statement.bind(text: content, at: index)
                } else {
                    statement.bind(blob: content, at: index)
                }
                rest = rest.dropFirst(count)
            case .null, .absent, .object: statement.bind(.null, at: index)
            }
            index += 1
        }
    }

    private mutating func append(_ word: UInt64) {
        withUnsafeBytes(of: word) { bytes += $0 }
    }
}
