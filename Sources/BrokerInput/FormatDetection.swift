/// The format of an input by its content.
extension RecordFormat {
    /// The format that the first bytes show, unpacked and decoded; the name decides where they do not, and else it is JSON.
    ///
    /// Of a pipe the first bytes are waited for, and read again.
    package static func found(atPath path: String, named name: RecordFormat?, encoding: TextEncoding?) -> RecordFormat {
        guard name != .form else { return .form }
        guard PipeInput.isPipe(path) else {
            guard let file = try? FileBytes(path) else { return name ?? .json }
            return Content(file, encoding).format(named: name, isWhole: true) ?? name ?? .json
        }
        var ahead = PipeInput.readAhead(path, Content.most, patience: 0)
        while true {
            let isWhole = ahead.isAll || ahead.bytes.count >= Content.most
            if let format = Content(FirstBytes(ahead.bytes), encoding).format(named: name, isWhole: isWhole) {
                return format
            }
            if isWhole { return name ?? .json }
            ahead = PipeInput.readAhead(path, Content.most, patience: 0, waits: true)
        }
    }

    /// The first bytes of an input.
    private struct Content {
        static let most = 64 << 10

        private let bytes: ArraySlice<UInt8>

        init(_ source: any ByteSource, _ encoding: TextEncoding?) {
            let decoded = DecodedBytes(UnpackedBytes(source), encoding: encoding, mayBeWestern: true)
            var bytes: [UInt8] = []
            while bytes.count < Self.most, let chunk = try? decoded.next(), !chunk.isEmpty { bytes += chunk }
            self.bytes = bytes.drop { $0.isJSONSpace || [0xEF, 0xBB, 0xBF, 0x1E].contains($0) }
        }

        /// Nil when the bytes do not show it, or not yet.
        func format(named name: RecordFormat?, isWhole: Bool) -> RecordFormat? {
            guard let first = bytes.first else { return nil }
            let rest = bytes.dropFirst().drop(while: \.isJSONSpace)
            switch first {
            case UInt8(ascii: "{"), UInt8(ascii: "["):
                guard let second = rest.first else { return nil }
                let isJSON =
                    first == UInt8(ascii: "{")
                    ? second == UInt8(ascii: "\"") || second == UInt8(ascii: "}")
                    : second.isDigit || "{[\"]-".utf8.contains(second)
                        || ["true", "false", "null"].contains { rest.starts(with: $0.utf8) }
                if isJSON { return name == .ndjson ? .ndjson : .json }
            case UInt8(ascii: "<"):
                guard let second = bytes.dropFirst().first else { return nil }
                if (second | 0x20) &- UInt8(ascii: "a") < 26 || "?!_".utf8.contains(second) || second >= 0x80 {
                    return .xml
                }
            default: break
            }
            guard name != .csv, name != .tsv else { return name }
            return hasDelimiter(isWhole: isWhole).map { $0 ? .csv : name ?? .json }
        }

        /// The first line that is no comment has one outside of quotes; nil when it is not there yet.
        private func hasDelimiter(isWhole: Bool) -> Bool? {
            var isQuoted = false
            var isComment = bytes.first == UInt8(ascii: "#")
            var isStart = false
            for byte in bytes {
                if isStart { (isComment, isStart) = (byte == UInt8(ascii: "#"), false) }
                if byte == UInt8(ascii: "\""), !isComment { isQuoted.toggle() }
                if byte == UInt8(ascii: "\n"), !isQuoted {
                    guard isComment else { return false }
                    isStart = true
                }
                if !isQuoted, !isComment, CSVDelimiter.common.contains(where: { $0.byte == byte }) { return true }
            }
            return isWhole ? false : nil
        }
    }

    /// Bytes that are there.
    private final class FirstBytes: ByteSource {
        private let bytes: [UInt8]
        private(set) var bytesRead = 0

        init(_ bytes: [UInt8]) { self.bytes = bytes }

        func next() throws(InputFault) -> [UInt8] {
            defer { bytesRead = bytes.count }
            return bytesRead == 0 ? bytes : []
        }
    }
}
