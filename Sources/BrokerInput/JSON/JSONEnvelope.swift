/// The JSON around the records of an input: its first value without the contents of large arrays. Of an input of any size it
/// takes little memory.
package struct JSONEnvelope {
    /// The maximum bytes of an array whose contents are read.
    package static let largeArray = 64 << 10

    /// JSON, if the input is.
    private(set) var json: [UInt8] = []
    private var depth = 0
    /// Where the outermost open array begins in ``json``, and its depth.
    private var array: (start: Int, depth: Int)?
    /// The contents of that array are not read.
    private var isSkipping = false
    private var isInString = false
    private var isEscaped = false
    /// The value is whole.
    private var isComplete = false

    private let largeArray: Int

    init(largeArray: Int) { self.largeArray = largeArray }

    /// Reads an input up to the end of its first value.
    ///
    /// - Parameters:
    ///   - maximumBytes: more bytes of the input, unpacked, are a fault.
    ///   - largeArray: the contents of a larger array are not read.
    package static func read(
        file path: String, maximumBytes: Int, largeArray: Int
    ) throws(InputFault) -> [UInt8] {
        var envelope = JSONEnvelope(largeArray: largeArray)
        let bytes = UnpackedBytes(try FileBytes(path), maximumBytes: maximumBytes)
        while !envelope.isComplete {
            let chunk = try bytes.next()
            if chunk.isEmpty { break }
            envelope.feed(chunk)
        }
        return envelope.json
    }

    mutating func feed(_ bytes: [UInt8]) {
        for byte in bytes {
            // A byte order mark and white space may precede it.
            if json.isEmpty, byte.isJSONSpace || [0xEF, 0xBB, 0xBF].contains(byte) { continue }
            add(byte)
            if isComplete { return }
            if let array, !isSkipping, json.count - array.start > largeArray {
                json.removeSubrange((array.start + 1)...)
                isSkipping = true
            }
        }
    }

    private mutating func add(_ byte: UInt8) {
        var isLast = false
        if isInString {
            if isEscaped {
                isEscaped = false
            } else if byte == UInt8(ascii: "\\") {
                isEscaped = true
            } else if byte == UInt8(ascii: "\"") {
                isInString = false
            }
        } else {
            switch byte {
            case UInt8(ascii: "\""): isInString = true
            case UInt8(ascii: "["), UInt8(ascii: "{"):
                depth += 1
                if byte == UInt8(ascii: "["), array == nil { array = (json.count, depth) }
            case UInt8(ascii: "]"), UInt8(ascii: "}"):
                isLast = array?.depth == depth
                depth -= 1
                isComplete = depth <= 0
            default: break
            }
        }
        if !isSkipping || isLast { json.append(byte) }
        if isLast { (array, isSkipping) = (nil, false) }
    }
}

/// The beginning of an input.
package enum InputBeginning {
    /// The first value is an array, whose elements are records.
    ///
    /// - Parameter path: a file; `-` is standard input.
    package static func isArray(file path: String) -> Bool {
        guard let bytes = (try? FileBytes(path)).map({ UnpackedBytes($0) }) else { return false }
        while let chunk = try? bytes.next(), !chunk.isEmpty {
            // White space and a byte order mark may precede it.
            let first = chunk.first { !$0.isJSONSpace && ![0xEF, 0xBB, 0xBF, 0x1E].contains($0) }
            if let first { return first == UInt8(ascii: "[") }
        }
        return false
    }
}
