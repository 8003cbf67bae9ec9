import Foundation

/// A regular expression in ICU's syntax that must match somewhere in a text.
struct PatternConstraint: Sendable {
    let pattern: String
    private let expression: NSRegularExpression

    /// Nil when the pattern is no regular expression; ICU does not say why.
    init?(_ pattern: String) {
        do {
            expression = try NSRegularExpression(pattern: pattern)
        } catch {
            return nil
        }
        self.pattern = pattern
    }

    func matches(_ text: UnsafeBufferPointer<UInt8>) -> Bool {
        let string = String(decoding: text, as: UTF8.self)
        let whole = NSRange(location: 0, length: string.utf16.count)
        return expression.rangeOfFirstMatch(in: string, range: whole).location != NSNotFound
    }
}
