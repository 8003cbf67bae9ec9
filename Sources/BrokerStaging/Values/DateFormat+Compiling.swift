extension DateFormat {
    /// Returns the steps of a pattern; nil when steps cannot express a field or a combination of fields.
    static func compile(_ tokens: [DatePatternToken]) -> [Step]? {
        var steps: [Step] = []
        for (index, token) in tokens.enumerated() {
            switch token {
            case .literal(let byte):
                if byte == UInt8(ascii: " ") {
                    if steps.last != .spaces { steps.append(.spaces) }
                } else {
                    steps.append(.literal(byte))
                }
            case .field(let letter, let count):
                let before = index > 0 && tokens[index - 1].isNumber
                let after = index + 1 < tokens.count && tokens[index + 1].isNumber
                guard let step = step(letter: letter, count: count, touches: token.isNumber && (before || after)) else {
                    return nil
                }
                steps.append(step)
            }
        }
        return isPlain(tokens.compactMap(\.letter)) ? steps : nil
    }

    private static func step(letter: UInt8, count: Int, touches: Bool) -> Step? {
        // Adjacent fields have as many digits as letters; a single letter sets no number of digits.
        guard !touches || count > 1 else { return nil }
        let digits = touches ? count : 1
        switch (Character(UnicodeScalar(letter)), count) {
        case ("y", 1): return .year(digits: 1, upTo: 4)
        case ("y", 2): return .twoDigitYear
        case ("y", 4): return .year(digits: 4, upTo: 4)
        case ("M", 1...2), ("L", 1...2): return .month(digits: digits, upTo: 2)
        case ("M", 3...4), ("L", 3...4): return .monthName
        case ("d", 1...2): return .day(digits: digits, upTo: 2)
        case ("E", 1...4): return .weekdayName
        case ("H", 1...2): return .hour(digits: digits, upTo: 2)
        case ("k", 1...2): return .hourFromOne(digits: digits, upTo: 2)
        case ("h", 1...2): return .halfDayHour(digits: digits, upTo: 2)
        case ("K", 1...2): return .halfDayHourFromZero(digits: digits, upTo: 2)
        case ("a", 1...3): return .halfDay
        case ("m", 1...2): return .minute(digits: digits, upTo: 2)
        case ("s", 1...2): return .second(digits: digits, upTo: 2)
        case ("S", _): return .fraction(upTo: touches ? count : .max)
        case ("Z", 1...5), ("X", 1...3), ("x", 1...3), ("z", 1...3): return .zone
        default: return nil
        }
    }

    /// Whether there is a year, no field occurs twice, and the half of the day occurs with an hour of it.
    private static func isPlain(_ letters: [UInt8]) -> Bool {
        let kinds = letters.map { letter -> Character in
            switch Character(UnicodeScalar(letter)) {
            case "L": "M"
            case "k": "H"
            case "K": "h"
            case "X", "x", "z": "Z"
            case let other: other
            }
        }
        let isHalfDayPlain = !kinds.contains("a") || kinds.contains("h")
        return kinds.contains("y") && isHalfDayPlain && !(kinds.contains("h") && kinds.contains("H"))
            && Set(kinds).count == kinds.count
    }
}

extension DatePatternToken {
    /// Whether the field is written in digits.
    fileprivate var isNumber: Bool {
        guard case .field(let letter, let count) = self else { return false }
        switch Character(UnicodeScalar(letter)) {
        case "M", "L": return count < 3
        case "y", "d", "H", "k", "h", "K", "m", "s", "S": return true
        default: return false
        }
    }
}
