/// The beginning of an input.
package enum InputBeginning {
    /// The first value of JSON, as one record; nil when there is none.
    ///
    /// - Parameter maximumBytes: more bytes of the input up to its end, unpacked, are a fault.
    package static func firstValue(file path: String, maximumBytes: Int) throws(InputFault) -> InputRecord? {
        try values(in: UnpackedBytes(try FileBytes(path), maximumBytes: maximumBytes), most: 1).first
    }

    /// - Parameter goesOn: asked after each piece, as long as there is no value.
    private static func values(
        in bytes: any ByteSource, most count: Int, while goesOn: ([UInt8]) -> Bool = { _ in true }
    ) throws(InputFault) -> [InputRecord] {
        var cutter = RecordCutter(opensArrays: false)
        var values: [InputRecord] = []
        do throws(InputFault) {
            while values.count < count {
                let chunk = try bytes.next()
                if chunk.isEmpty {
                    try cutter.finish { values.append($0) }
                    break
                }
                try cutter.feed(chunk) { values.append($0) }
                guard !values.isEmpty || goesOn(chunk) else { break }
            }
        } catch {
            // What follows the values does not count.
            guard !values.isEmpty else { throw error }
        }
        return Array(values.prefix(count))
    }

    /// The first value is an array, whose elements are records.
    package static func isArray(file path: String) -> Bool {
        guard let bytes = (try? FileBytes(path)).map({ UnpackedBytes($0) }) else { return false }
        while let chunk = try? bytes.next(), !chunk.isEmpty {
            // White space and a byte order mark may precede it.
            let first = chunk.first { !$0.isJSONSpace && ![0xEF, 0xBB, 0xBF, 0x1E].contains($0) }
            if let first { return first == UInt8(ascii: "[") }
        }
        return false
    }

    /// The first values of JSON, for those who look for the records in it.
    package struct Sample {
        /// At most two. The only one may lack its end, with all that was open there closed.
        package let values: [InputRecord]
        /// There is no other value, as far as was read.
        package let isOnly: Bool
    }

    /// - Parameter most: bytes of the input that are read.
    package static func sample(
        file path: String, encoding: TextEncoding?, most: Int
    ) throws(InputFault) -> Sample {
        let bytes = DecodedBytes(UnpackedBytes(try FileBytes(path)), encoding: encoding, mayBeWestern: false)
        var text: [UInt8] = []
        let values = try values(in: bytes, most: 2) { chunk in
            text += chunk
            return text.count < most
        }
        guard values.isEmpty, text.count >= most else { return Sample(values: values, isOnly: values.count == 1) }
        let closed = closed(text).map { InputRecord(json: $0, place: InputPlace()) }
        return Sample(values: closed.map { [$0] } ?? [], isOnly: true)
    }

    /// The beginning of a value up to its last comma, with all that is open there closed; nil without one.
    static func closed(_ text: [UInt8]) -> [UInt8]? {
        let (objectEnd, arrayEnd) = (UInt8(ascii: "}"), UInt8(ascii: "]"))
        var lastComma = 0
        func scan(_ count: Int) -> [UInt8] {
            var ends: [UInt8] = []
            var (isText, isEscaped) = (false, false)
            for index in 0..<count {
                let byte = text[index]
                guard !isText else {
                    isText = isEscaped || byte != UInt8(ascii: "\"")
                    isEscaped = !isEscaped && byte == UInt8(ascii: "\\")
                    continue
                }
                switch byte {
                case UInt8(ascii: "\""): isText = true
                case UInt8(ascii: "{"): ends.append(objectEnd)
                case UInt8(ascii: "["): ends.append(arrayEnd)
                case objectEnd, arrayEnd: _ = ends.popLast()
                case UInt8(ascii: ","): lastComma = index
                default: break
                }
            }
            return ends
        }
        _ = scan(text.count)
        guard lastComma > 0 else { return nil }
        let beginning = text[..<lastComma]
        return beginning.drop { [0xEF, 0xBB, 0xBF, 0x1E].contains($0) } + scan(lastComma).reversed()
    }
}
