/// The fields of one line of CSV, without their quotes.
struct CSVRow {
    private var bytes: [UInt8] = []
    /// The end of each field in ``bytes``, and whether it was quoted.
    private var fields: [(end: Int, isQuoted: Bool)] = []

    /// The beginning of the field that is being read; nil between two fields.
    var fieldPlace: InputPlace?
    /// The field that is being read is quoted.
    var isQuoted = false

    /// Bytes of all fields.
    var count: Int { bytes.count }
    var fieldCount: Int { fields.count }

    mutating func append(_ more: some Collection<UInt8>) { bytes.append(contentsOf: more) }

    mutating func endField() {
        fields.append((bytes.count, isQuoted))
        fieldPlace = nil
        isQuoted = false
    }

    mutating func removeAll() {
        bytes.removeAll(keepingCapacity: true)
        fields.removeAll(keepingCapacity: true)
    }

    /// Each field is quoted, if it needs quotes or not.
    var isQuotedThroughout: Bool { fields.allSatisfy(\.isQuoted) }

    /// Quotes do not distinguish an empty text from a missing value.
    var ignoresQuotes = false

    /// Not there, or empty and not quoted: a missing value.
    func isMissing(_ field: Int) -> Bool {
        field >= fields.count || (range(field).isEmpty && (ignoresQuotes || !fields[field].isQuoted))
    }

    func withText<Result>(_ field: Int, _ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result {
        bytes.withUnsafeBufferPointer { body(UnsafeBufferPointer(rebasing: $0[range(field)])) }
    }

    var texts: [String] {
        fields.indices.map { withText($0) { String(decoding: $0, as: UTF8.self) } }
    }

    /// The first byte of the field that is being read that is not UTF-8, and its position.
    var fieldFault: (place: InputPlace, seen: String)? {
        let start = fields.last?.end ?? 0
        let offset = bytes.withUnsafeBufferPointer { utf8FaultOffset(UnsafeBufferPointer(rebasing: $0[start...])) }
        guard let offset, let fieldPlace else { return nil }
        // Each quote was two bytes, and one preceded the field.
        var written = isQuoted ? [UInt8(ascii: "\"")] : []
        for byte in bytes[start..<start + offset] {
            written.append(byte)
            if byte == UInt8(ascii: "\"") { written.append(byte) }
        }
        return (fieldPlace.advanced(over: written), bytes[start + offset].asSeen)
    }

    private func range(_ field: Int) -> Range<Int> { (field == 0 ? 0 : fields[field - 1].end)..<fields[field].end }
}
