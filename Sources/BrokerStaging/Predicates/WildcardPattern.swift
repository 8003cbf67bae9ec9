/// A pattern of LIKE: `*` matches any characters, `?` matches one (a Unicode scalar), and a backslash escapes the next
/// character.
struct WildcardPattern: Sendable {
    private enum Part: Sendable, Equatable {
        case byte(UInt8)
        case oneCharacter
        case anything
    }

    private let parts: [Part]

    init(_ pattern: [UInt8]) {
        var parts: [Part] = []
        var isEscaped = false
        for byte in pattern {
            switch byte {
            case _ where isEscaped:
                parts.append(.byte(byte))
                isEscaped = false
            case UInt8(ascii: "\\"): isEscaped = true
            case UInt8(ascii: "*"): if parts.last != .anything { parts.append(.anything) }
            case UInt8(ascii: "?"): parts.append(.oneCharacter)
            default: parts.append(.byte(byte))
            }
        }
        // A backslash at the end is literal.
        if isEscaped { parts.append(.byte(UInt8(ascii: "\\"))) }
        self.parts = parts
    }

    /// SQL's pattern with the wildcards of this one; nil for a pattern that has some of these, or no `%` at an end.
    static func form(ofSQL pattern: String) -> String? {
        guard pattern.hasPrefix("%") || pattern.hasSuffix("%") && !pattern.hasSuffix("\\%") else { return nil }
        var (form, isEscaped) = ("", false)
        for character in pattern.unicodeScalars {
            guard isEscaped || (character != "*" && character != "?") else { return nil }
            form.unicodeScalars.append(character == "%" && !isEscaped ? "*" : character)
            isEscaped = character == "\\" && !isEscaped
        }
        return form
    }

    enum Verdict: Equatable {
        case matches
        case doesNotMatch
        /// Matching took more than ``RegularExpression/maximumSteps``.
        case tooManySteps
        case budgetSpent
    }

    /// A step takes 2 ns.
    static let stepsPerUnit = 8

    /// Whether the whole text matches the pattern.
    ///
    /// Only the latest star is tried again, so steps are at most the text's length times the pattern's. All of them are
    /// charged.
    func verdict(on text: UnsafeBufferPointer<UInt8>, budget: inout WorkBudget) -> Verdict {
        let affordable = budget.remaining.multipliedReportingOverflow(by: Self.stepsPerUnit)
        let allowed = min(RegularExpression.maximumSteps, affordable.overflow ? .max : affordable.partialValue)
        var steps = 0
        let matches = matches(text, &steps, allowed)
        budget.charge(steps / Self.stepsPerUnit + 1)
        if let matches { return matches ? .matches : .doesNotMatch }
        return steps > RegularExpression.maximumSteps ? .tooManySteps : .budgetSpent
    }

    /// Returns nil when the steps were not enough.
    private func matches(_ text: UnsafeBufferPointer<UInt8>, _ steps: inout Int, _ allowed: Int) -> Bool? {
        var index = 0
        var part = 0
        var star: (part: Int, index: Int)?
        while index < text.count || part < parts.count {
            steps += 1
            guard steps <= allowed else { return nil }
            if part < parts.count {
                switch parts[part] {
                case .anything:
                    star = (part, index)
                    part += 1
                    continue
                case .byte(let byte) where index < text.count && text[index] == byte:
                    index += 1
                    part += 1
                    continue
                case .oneCharacter where index < text.count:
                    index = Self.next(text, index)
                    part += 1
                    continue
                case .byte, .oneCharacter: break
                }
            }
            guard let last = star, last.index < text.count else { return false }
            // The star matches one character more.
            star = (last.part, Self.next(text, last.index))
            index = star!.index
            part = last.part + 1
        }
        return true
    }

    private static func next(_ text: UnsafeBufferPointer<UInt8>, _ index: Int) -> Int {
        var next = index + 1
        while next < text.count, text[next] & 0xC0 == 0x80 { next += 1 }
        return next
    }
}
