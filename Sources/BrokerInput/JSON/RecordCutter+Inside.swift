/// Inside of a record: the innermost loop of reading JSON. Its position is in local variables, for registers.
extension RecordCutter {
    /// - Returns: the end of the record; nil when it is not in this piece.
    mutating func goOnInside(
        _ piece: UnsafeBufferPointer<UInt8>, from start: Int, base: Int
    ) throws(InputFault) -> Int? {
        guard let bytes = piece.baseAddress, start < piece.count else { return nil }
        let end = piece.count
        var index = start
        if state == .scalar, !goOnInScalar(bytes, &index, end) { return nil }
        var state = state
        var isObject = open.last == UInt8(ascii: "{")
        defer { self.state = state }
        while true {
            // A record that is a single value ends with it.
            if state == .commaOrEnd, open.isEmpty { return index }
            guard index < end else { return nil }
            let byte = bytes[index]
            switch state {
            case .string, .keyString:
                index = bytes.stringEnd(from: index, to: end, &doubts)
                guard index < end else { return nil }
                if bytes[index] == UInt8(ascii: "\"") {
                    state = state == .string ? .commaOrEnd : .colon
                } else if bytes[index] == UInt8(ascii: "\\") {
                    doubts.insert(.escapes)
                    state = state == .string ? .escape : .keyEscape
                } else {
                    throw controlCharacter(bytes[index], at: base + index)
                }
            case .escape, .keyEscape:
                guard byte >= 0x20 else { throw controlCharacter(byte, at: base + index) }
                if byte >= 0x80 { doubts.insert(.notASCII) }
                state = state == .escape ? .string : .keyString
            case _ where byte.isJSONSpace:
                index = skipSpace(bytes, from: index, to: end, base: base)
                continue
            case .colon where byte == UInt8(ascii: ":"): state = .value
            case .key where byte == UInt8(ascii: "\""), .firstKey where byte == UInt8(ascii: "\""): state = .keyString
            case .commaOrEnd where byte == UInt8(ascii: ","): state = isObject ? .key : .value
            case .commaOrEnd where byte == (isObject ? UInt8(ascii: "}") : UInt8(ascii: "]")),
                .firstKey where byte == UInt8(ascii: "}"), .firstValue where byte == UInt8(ascii: "]"):
                open.removeLast()
                isObject = open.last == UInt8(ascii: "{")
                state = .commaOrEnd
            case .value where byte == UInt8(ascii: "\""), .firstValue where byte == UInt8(ascii: "\""):
                state = .string
            case .value where byte.isScalar, .firstValue where byte.isScalar:
                state = .scalar
                let begin = index
                index = bytes.scalarEnd(from: begin, to: end, &doubts)
                guard index < end else { return nil }
                state = .commaOrEnd
                continue
            case .value, .firstValue:
                state = try beginContainer(byte, at: base + index)
                isObject = state == .firstKey
            default: throw unexpected(byte, state, at: base + index)
            }
            index += 1
        }
    }

    /// Continues a number or a literal that began in another piece.
    ///
    /// - Returns: false when it does not end in this one.
    private mutating func goOnInScalar(_ bytes: UnsafePointer<UInt8>, _ index: inout Int, _ end: Int) -> Bool {
        // Its beginning is not available.
        doubts.insert(.anything)
        while index < end, bytes[index].isScalar { index += 1 }
        guard index < end else { return false }
        state = .commaOrEnd
        return true
    }

    private mutating func skipSpace(
        _ bytes: UnsafePointer<UInt8>, from start: Int, to end: Int, base: Int
    ) -> Int {
        var index = start
        while index < end, bytes[index].isJSONSpace {
            if bytes[index] == UInt8(ascii: "\n") {
                position.reach(base + index)
                position.advanceOverLineEnd()
            }
            index += 1
        }
        return index
    }

    /// Begins an array or an object: the record itself or a value inside of it.
    private mutating func beginContainer(_ byte: UInt8, at offset: Int) throws(InputFault) -> State {
        guard byte == UInt8(ascii: "{") || byte == UInt8(ascii: "[") else {
            position.reach(offset)
            throw noValue(byte)
        }
        open.append(byte)
        guard open.count <= RecordLimits.maximumDepth else {
            position.reach(offset)
            throw fault(RecordLimits.tooDeep)
        }
        return byte == UInt8(ascii: "{") ? .firstKey : .firstValue
    }

    private mutating func unexpected(_ byte: UInt8, _ state: State, at offset: Int) -> InputFault {
        position.reach(offset)
        let expected =
            switch state {
            case .commaOrEnd: "a comma or the closing bracket"
            case .colon: "a colon after the key"
            default: "a key in double quotes"
            }
        return fault("expected \(expected), saw \(byte.asSeen)")
    }

    private mutating func controlCharacter(_ byte: UInt8, at offset: Int) -> InputFault {
        position.reach(offset)
        return fault("\(byte.asSeen) must be escaped inside a string")
    }
}
