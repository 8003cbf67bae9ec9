import BrokerInput
import BrokerJSON

/// A file's bytes in one of the formats, which the first byte chooses: the same records and the same fault in whatever
/// pieces the bytes come, and each record is JSON.
final class FormatTarget: FuzzTarget {
    private static let formats = RecordFormat.allCases

    init() {}

    func run(_ input: UnsafeRawBufferPointer) throws {
        var input = FuzzInput(input)
        let choice = Int(input.byte())
        let format = Self.formats[choice % Self.formats.count]
        let choices = choice / Self.formats.count
        let bytes = Array(input.rest)
        let root = choices % 2 == 0 ? nil : RecordRoot("a.b")
        let whole = try Reading(format, bytes, root, pieces: max(1, bytes.count))
        let pieces = try Reading(format, bytes, root, pieces: 1 + choices / 2 % 8)
        try require(whole.records == pieces.records, "\(format): the records are others when the bytes come in pieces")
        // libxml2 has several sentences for one fault, and chooses by how much of the document it has.
        let isSame = format == .xml ? whole.isFaulty(as: pieces) : whole.fault == pieces.fault
        try require(isSame, "\(format): \(whole.faultText), or in pieces \(pieces.faultText)")
    }
}

private struct Reading {
    private(set) var records: [[UInt8]] = []
    private(set) var fault: InputFault?

    var faultText: String {
        fault.map { "\($0.text) at \($0.place.map(String.init(describing:)) ?? "nowhere")" } ?? "good"
    }

    /// Both are good, or both are not, at the same place.
    func isFaulty(as other: Reading) -> Bool {
        (fault == nil) == (other.fault == nil) && fault?.place == other.fault?.place
    }

    init(_ format: RecordFormat, _ bytes: [UInt8], _ root: RecordRoot?, pieces size: Int) throws {
        var found: [InputRecord] = []
        do throws(InputFault) {
            try format.read(PiecedBytes(bytes, size), root: root, wait: {}) { found.append($0) }
        } catch {
            fault = error
        }
        for record in found {
            records.append(Array(record.json))
            guard record.isSound else { continue }
            let text = JSONText(copying: Array(record.json))
            try require(
                JSONGrammar.accepts(text.bytes, maximumDepth: JSONDocument.defaultMaximumDepth),
                "\(format): a record that is called sound is no JSON")
        }
    }
}

/// Bytes in pieces of one size.
private final class PiecedBytes: ByteSource {
    private let bytes: [UInt8]
    private let size: Int
    private(set) var bytesRead = 0

    init(_ bytes: [UInt8], _ size: Int) {
        self.bytes = bytes
        self.size = size
    }

    func next() throws(ByteFault) -> [UInt8] {
        defer { bytesRead = min(bytes.count, bytesRead + size) }
        return Array(bytes[bytesRead..<min(bytes.count, bytesRead + size)])
    }
}
