/// A token of a date pattern: a run of one letter, or a literal byte.
enum DatePatternToken: Equatable {
    case field(letter: UInt8, count: Int)
    case literal(UInt8)

    /// The pattern letters of UTS 35, revision 72. `j`, `J` and `C` belong to skeletons and are not valid in a pattern.
    private static let letters = Set("GyYuUrQqMLlwWdDFgEecabBhHkKmsSAzZOvVXx".utf8)

    /// The letter of a field.
    var letter: UInt8? {
        if case .field(let letter, _) = self { letter } else { nil }
    }

    static func tokens(of pattern: String) throws(DateFormat.Fault) -> [DatePatternToken] {
        let bytes = Array(pattern.utf8)
        var tokens: [DatePatternToken] = []
        var isQuoted = false
        var index = 0
        while index < bytes.count {
            let byte = bytes[index]
            if byte == UInt8(ascii: "'") {
                if index + 1 < bytes.count, bytes[index + 1] == byte {
                    tokens.append(.literal(byte))
                    index += 2
                } else {
                    isQuoted.toggle()
                    index += 1
                }
            } else if !isQuoted, isLetter(byte) {
                let count = bytes[index...].prefix { $0 == byte }.count
                guard letters.contains(byte) else {
                    let letter = Character(UnicodeScalar(byte))
                    throw DateFormat.Fault(
                        message:
                            "\"\(letter)\" is no field of a date pattern (Unicode TR 35); put text in single quotes")
                }
                tokens.append(.field(letter: byte, count: count))
                index += count
            } else {
                tokens.append(.literal(byte))
                index += 1
            }
        }
        guard !isQuoted else { throw DateFormat.Fault(message: "a single quote is opened and never closed") }
        guard tokens.contains(where: { $0.letter != nil }) else {
            throw DateFormat.Fault(message: "it names no field of a date, such as yyyy")
        }
        return tokens
    }

    private static func isLetter(_ byte: UInt8) -> Bool { (byte | 0x20) &- UInt8(ascii: "a") < 26 }
}
