import Foundation

/// Removes from texts the differences that `[c]` and `[d]` ignore, for comparisons.
///
/// Works scalar by scalar (Unicode), so that it takes linear time. Case is folded by Unicode's full mappings to upper
/// and then to lower case (ß is ss, the final sigma is a sigma). Diacritics are the marks that a character is composed
/// with, or that follow it.
struct TextFolding: Sendable {
    private let ignoresCase: Bool
    /// By scalar, its folded form, for the scripts in which letters have case or diacritics.
    private let table: [String]

    /// Returns nil when no difference is ignored.
    init?(ignoresCase: Bool, ignoresDiacritics: Bool) {
        switch (ignoresCase, ignoresDiacritics) {
        case (false, false): return nil
        case (true, false): table = Self.caseTable
        case (false, true): table = Self.diacriticTable
        case (true, true): table = Self.bothTable
        }
        self.ignoresCase = ignoresCase
        fold = Self.folding(ignoresCase, ignoresDiacritics)
    }

    private let fold: @Sendable (Unicode.Scalar) -> String

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
                folded += fold(scalar).utf8
            }
        }
        return folded
    }

    /// The scalars below this are in the tables: Latin, Greek, Cyrillic and their extensions.
    private static let tableSize: UInt32 = 0x2000

    private static let caseTable = table(ignoresCase: true, ignoresDiacritics: false)
    private static let diacriticTable = table(ignoresCase: false, ignoresDiacritics: true)
    private static let bothTable = table(ignoresCase: true, ignoresDiacritics: true)

    private static func table(ignoresCase: Bool, ignoresDiacritics: Bool) -> [String] {
        let fold = folding(ignoresCase, ignoresDiacritics)
        return (0..<tableSize).map { Unicode.Scalar($0).map(fold) ?? "" }
    }

    private static func folding(
        _ ignoresCase: Bool, _ ignoresDiacritics: Bool
    ) -> @Sendable (Unicode.Scalar) -> String {
        { scalar in
            let bare = ignoresDiacritics ? withoutMarks(scalar) : String(scalar)
            return ignoresCase ? withoutCase(bare) : bare
        }
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
