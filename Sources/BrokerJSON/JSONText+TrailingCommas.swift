extension JSONText {
    /// A copy in which every comma between a value and a closing bracket is a space, so that all positions stay the
    /// same.
    ///
    /// Commas that follow no value (`[,]`, `[1,,]`, `{"a":,}`) stay, and the parser refuses them. Nil when the text has
    /// no comma to replace.
    public func blankingTrailingCommas() -> JSONText? {
        var commas: [Int] = []
        var lastComma: Int?
        var followsValue = false
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
            case UInt8(ascii: ","):
                lastComma = followsValue ? offset : nil
                followsValue = false
            case UInt8(ascii: "]"), UInt8(ascii: "}"):
                if let lastComma { commas.append(lastComma) }
                lastComma = nil
                followsValue = true
            case UInt8(ascii: "["), UInt8(ascii: "{"), UInt8(ascii: ":"):
                lastComma = nil
                followsValue = false
            default:
                isInString = byte == UInt8(ascii: "\"")
                lastComma = nil
                followsValue = true
            }
        }
        guard !commas.isEmpty else { return nil }
        var copy = Array(bytes)
        for comma in commas { copy[comma] = UInt8(ascii: " ") }
        return JSONText(copying: copy)
    }
}
