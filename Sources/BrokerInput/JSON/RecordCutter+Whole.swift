/// A record that is whole in its piece, and has no fault, line end or deep nesting: nearly every one.
extension UnsafePointer<UInt8> {
    /// Returns the end of the record that begins at `start`; nil when it is not such a record.
    ///
    /// ``RecordCutter/goOnInside(_:from:base:)`` reads every record, and can stop at each byte. Here the state is the position in
    /// the code, which takes three fifths of the time.
    ///
    /// - Parameter doubts: about the record; without meaning when the result is nil.
    func wholeRecordEnd(from start: Int, to end: Int, _ doubts: inout RecordDoubts) -> Int? {
        var index = start
        // A bit for each open container, 1 for an object; the innermost is the lowest.
        var open: UInt64 = 0
        var depth = 0
        while true {
            // Before a value.
            guard index < end else { return nil }
            let byte = self[index]
            if byte == UInt8(ascii: "{") || byte == UInt8(ascii: "[") {
                guard depth < UInt64.bitWidth else { return nil }
                depth += 1
                let isObject = byte == UInt8(ascii: "{")
                open = open &<< 1 | (isObject ? 1 : 0)
                index += 1
                guard skipBlanks(&index, end) else { return nil }
                if self[index] != (isObject ? UInt8(ascii: "}") : UInt8(ascii: "]")) {
                    if isObject { guard passKey(&index, end, &doubts) else { return nil } }
                    continue
                }
            } else {
                guard passScalar(&index, end, &doubts) else { return nil }
            }
            // After a value, or at the end of an empty container.
            while depth > 0 {
                guard skipBlanks(&index, end) else { return nil }
                let byte = self[index]
                let isObject = open & 1 == 1
                index += 1
                if byte == UInt8(ascii: ",") {
                    guard skipBlanks(&index, end) else { return nil }
                    if isObject { guard passKey(&index, end, &doubts) else { return nil } }
                    break
                }
                guard byte == (isObject ? UInt8(ascii: "}") : UInt8(ascii: "]")) else { return nil }
                depth -= 1
                open &>>= 1
            }
            if depth == 0 { return index }
        }
    }

    /// Moves to the next byte that is no blank. False at a line end, and when there is none.
    @inline(__always)
    private func skipBlanks(_ index: inout Int, _ end: Int) -> Bool {
        while index < end {
            if self[index] > 0x20 { return true }
            guard self[index] == 0x20 || self[index] == 0x09 else { return false }
            index += 1
        }
        return false
    }

    /// Moves over a key and its colon, to the beginning of the value.
    @inline(__always)
    private func passKey(_ index: inout Int, _ end: Int, _ doubts: inout RecordDoubts) -> Bool {
        guard self[index] == UInt8(ascii: "\""), passString(&index, end, &doubts), skipBlanks(&index, end),
            self[index] == UInt8(ascii: ":")
        else { return false }
        index += 1
        return skipBlanks(&index, end)
    }

    /// Moves over a string, a number or a literal, after which there must be a byte.
    @inline(__always)
    private func passScalar(_ index: inout Int, _ end: Int, _ doubts: inout RecordDoubts) -> Bool {
        if self[index] == UInt8(ascii: "\"") { return passString(&index, end, &doubts) }
        var faults: RecordDoubts = []
        index = scalarEnd(from: index, to: end, &faults)
        return faults.isEmpty && index < end
    }

    /// Moves over the string that begins here.
    @inline(__always)
    private func passString(_ index: inout Int, _ end: Int, _ doubts: inout RecordDoubts) -> Bool {
        index += 1
        while true {
            index = stringEnd(from: index, to: end, &doubts)
            guard index < end else { return false }
            if self[index] == UInt8(ascii: "\"") {
                index += 1
                return true
            }
            guard self[index] == UInt8(ascii: "\\"), index + 1 < end, 0x20...0x7F ~= self[index + 1] else {
                return false
            }
            doubts.insert(.escapes)
            index += 2
        }
    }
}
