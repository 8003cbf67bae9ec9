extension JSONText {
    /// A copy in which every comma right before a closing bracket is a space, so that places stay what they were.
    ///
    /// Nil when there is no such comma: then nothing is gained by a copy.
    public func blankingTrailingCommas() -> JSONText? {
        var commas: [Int] = []
        var lastComma: Int?
        var isInString = false
        var isEscaped = false
        for (offset, byte) in bytes.enumerated() {
            if isInString {
                if isEscaped {
                    isEscaped = false
                } else if byte == UInt8(ascii: "\\") {
                    isEscaped = true
                } else if byte == UInt8(ascii: "\"") {
                    isInString = false
                }
                continue
            }
            switch byte {
            case UInt8(ascii: " "), UInt8(ascii: "\n"), UInt8(ascii: "\r"), UInt8(ascii: "\t"): continue
            case UInt8(ascii: ","): lastComma = offset
            case UInt8(ascii: "]"), UInt8(ascii: "}"):
                if let lastComma { commas.append(lastComma) }
                lastComma = nil
            default:
                isInString = byte == UInt8(ascii: "\"")
                lastComma = nil
            }
        }
        guard !commas.isEmpty else { return nil }
        var copy = Array(bytes)
        for comma in commas { copy[comma] = UInt8(ascii: " ") }
        return JSONText(copying: copy)
    }
}
