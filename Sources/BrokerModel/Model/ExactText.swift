/// A text as a key: compared byte by byte, as SQLite compares names and the contract compares ids.
///
/// Two texts that differ only in Unicode form are two keys, while `String` compares them as equal.
package struct ExactText: Hashable, Sendable {
    package let text: String

    package init(_ text: String) {
        var text = text
        text.makeContiguousUTF8()
        self.text = text
    }

    package static func == (left: ExactText, right: ExactText) -> Bool { left.text.hasSameBytes(as: right.text) }

    package func hash(into hasher: inout Hasher) {
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}
