import Foundation

/// Removes from texts the differences that `[c]` and `[d]` ignore, for comparisons.
///
/// Works scalar by scalar (Unicode), so that it takes linear time. Case is folded by Unicode's full mappings to upper
/// and then to lower case (ß is ss, the final sigma is a sigma). Diacritics are the marks that a character is composed
/// with, or that follow it.
struct TextFolding: Sendable {
    private let ignoresCase: Bool
    private let ignoresDiacritics: Bool
    /// By scalar, its folded form, for the scripts in which letters have case or diacritics.
    private let table: [String]

    /// Returns nil when no difference is ignored.
    init?(ignoresCase: Bool, ignoresDiacritics: Bool) {
        guard ignoresCase || ignoresDiacritics else { return nil }
        self.ignoresCase = ignoresCase
        self.ignoresDiacritics = ignoresDiacritics
        table = !ignoresDiacritics ? Self.caseTable : ignoresCase ? Self.bothTable : Self.diacriticTable
    }

    func callAsFunction(_ text: UnsafeBufferPointer<UInt8>) -> [UInt8] {
        var isASCII = true
        for byte in text where byte >= 0x80 { isASCII = false }
        guard !isASCII else {
            guard ignoresCase else { return Array(text) }
            return text.map { $0 &- UInt8(ascii: "A") < 26 ? $0 | 0x20 : $0 }
        }
        var folded: [UInt8] = []
        folded.reserveCapacity(text.count)
        var decoder = UTF8()
        var bytes = text.makeIterator()
        while case .scalarValue(let scalar) = decoder.decode(&bytes) {
            if scalar.value < table.count {
                folded += table[Int(scalar.value)].utf8
            } else {
                folded += Self.folded(scalar, ignoresCase, ignoresDiacritics).utf8
            }
        }
        return folded
    }

    /// The scalars below this are in the tables: Latin, Greek, Cyrillic and their extensions.
    private static let tableSize: UInt32 = 0x2000

    private static let caseTable = table(true, false)
    private static let diacriticTable = table(false, true)
    private static let bothTable = table(true, true)

    private static func table(_ ignoresCase: Bool, _ ignoresDiacritics: Bool) -> [String] {
        (0..<tableSize).map { Unicode.Scalar($0).map { folded($0, ignoresCase, ignoresDiacritics) } ?? "" }
    }

    private static func folded(_ scalar: Unicode.Scalar, _ ignoresCase: Bool, _ ignoresDiacritics: Bool) -> String {
        let bare = ignoresDiacritics ? withoutMarks(scalar) : String(scalar)
        return ignoresCase ? withoutCase(bare) : bare
    }

    private static func withoutMarks(_ scalar: Unicode.Scalar) -> String {
        var base = String.UnicodeScalarView()
        for part in String(scalar).decomposedStringWithCanonicalMapping.unicodeScalars
        where part.properties.canonicalCombiningClass == .notReordered {
            base.append(part)
        }
        return String(base)
    }

    private static func withoutCase(_ text: String) -> String {
        var lower = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            for upper in scalar.properties.uppercaseMapping.unicodeScalars {
                lower.append(contentsOf: upper.properties.lowercaseMapping.unicodeScalars)
            }
        }
        return String(lower)
    }
}

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
