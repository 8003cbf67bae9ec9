/// How CSV is read.
package struct CSVOptions: Sendable {
    /// Nil finds it in the header.
    package var delimiter: CSVDelimiter?
    package var ragged: RaggedRows

    package init(delimiter: CSVDelimiter? = nil, ragged: RaggedRows = .fail) {
        self.delimiter = delimiter
        self.ragged = ragged
    }
}

/// Rows that have another number of fields than the header names.
package enum RaggedRows: String, CaseIterable, Sendable {
    case fail
    /// Missing fields are null. Fields without a name must be empty.
    case fill
}

/// The byte between two fields of CSV.
package struct CSVDelimiter: Equatable, Sendable {
    let byte: UInt8

    static let comma = CSVDelimiter(byte: UInt8(ascii: ","))
    static let tab = CSVDelimiter(byte: UInt8(ascii: "\t"))

    /// Those that are found, the preferred one first.
    static let common = [comma, CSVDelimiter(byte: UInt8(ascii: ";")), tab, CSVDelimiter(byte: UInt8(ascii: "|"))]

    private init(byte: UInt8) { self.byte = byte }

    /// One character of ASCII, or `tab`. Nil for any other text, a quote and control characters other than a tab.
    package init?(_ text: String) {
        if text == "tab" || text == "\\t" || text == "\t" {
            self = .tab
            return
        }
        guard let byte = text.utf8.first, text.utf8.count == 1, (0x20...0x7E).contains(byte), byte != UInt8(ascii: "\"")
        else { return nil }
        self.init(byte: byte)
    }

    /// The text from which it is made.
    package var text: String { self == .tab ? "tab" : String(UnicodeScalar(byte)) }

    /// The delimiter as named in a message.
    var described: String {
        switch byte {
        case UInt8(ascii: ","): "a comma"
        case UInt8(ascii: ";"): "a semicolon"
        case UInt8(ascii: "\t"): "a tab"
        default: "'\(text)'"
        }
    }
}
