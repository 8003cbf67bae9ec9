import Foundation

@testable import BrokerInput

/// The records and the end of an input.
struct Reading {
    var records: [String] = []
    var places: [InputPlace] = []
    var fault: InputFault?

    var lines: [Int] { places.map(\.line) }
    /// The fault as a person sees it, without its sentence's end.
    var faultText: String {
        fault.map { "\($0.place.map(String.init(describing:)) ?? "nowhere"): \($0.text)" } ?? "no fault"
    }

    /// - Parameter size: of the pieces in which the bytes come.
    init(_ format: RecordFormat, _ bytes: some Sequence<UInt8>, root: String? = nil, pieces size: Int = 1 << 16) {
        self.init(format, PiecedBytes(Array(bytes), size), root: root)
    }

    init(_ format: RecordFormat, _ text: String, root: String? = nil, pieces size: Int = 1 << 16) {
        self.init(format, text.utf8, root: root, pieces: size)
    }

    init(
        _ format: RecordFormat, _ source: any ByteSource, root: String? = nil, csv: CSVOptions = CSVOptions(),
        limits: RecordLimits = .ofJobs
    ) {
        var records: [InputRecord] = []
        do throws(InputFault) {
            try format.read(source, root: root.flatMap(RecordRoot.init), csv: csv, limits: limits, wait: {}) {
                records.append($0)
            }
        } catch {
            fault = error
        }
        self.records = records.map { String(decoding: $0.json, as: UTF8.self) }
        places = records.map(\.place)
    }

    /// All records, however the bytes are cut into pieces; nil when that makes a difference.
    static func always(
        _ format: RecordFormat, _ text: String, root: String? = nil, csv: CSVOptions = CSVOptions()
    ) -> Reading? {
        let whole = Reading(format, PiecedBytes(Array(text.utf8), 1 << 16), root: root, csv: csv)
        for size in 1...9 {
            let other = Reading(format, PiecedBytes(Array(text.utf8), size), root: root, csv: csv)
            guard other.records == whole.records, other.lines == whole.lines, other.faultText == whole.faultText else {
                return nil
            }
        }
        return whole
    }
}

/// Bytes in pieces of one size.
final class PiecedBytes: ByteSource {
    private let bytes: [UInt8]
    private let size: Int
    private(set) var bytesRead = 0

    init(_ bytes: [UInt8], _ size: Int) {
        self.bytes = bytes
        self.size = size
    }

    func next() throws(InputFault) -> [UInt8] {
        defer { bytesRead = min(bytes.count, bytesRead + size) }
        return Array(bytes[bytesRead..<min(bytes.count, bytesRead + size)])
    }
}

/// One piece again and again, so that an input larger than memory needs none.
final class RepeatedBytes: ByteSource {
    private let beginning: [UInt8]
    private let piece: [UInt8]
    private var pieces: Int
    private(set) var bytesRead = 0

    init(_ beginning: String, then piece: [UInt8], times: Int) {
        self.beginning = Array(beginning.utf8)
        self.piece = piece
        pieces = times
    }

    func next() throws(InputFault) -> [UInt8] {
        let next = bytesRead == 0 ? beginning : pieces > 0 ? piece : []
        if bytesRead > 0 { pieces -= 1 }
        bytesRead += next.count
        return next
    }
}
