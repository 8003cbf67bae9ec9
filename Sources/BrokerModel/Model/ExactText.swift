internal import Glibc

extension String {
    /// Equal byte by byte. `==` treats the normal forms of one Unicode text as equal, which SQLite's names and the
    /// contract's ids do not, and takes quadratic time for that.
    package func hasSameBytes(as other: String) -> Bool {
        let areSame = utf8.withContiguousStorageIfAvailable { own in
            other.utf8.withContiguousStorageIfAvailable {
                own.count == $0.count && (own.isEmpty || memcmp(own.baseAddress!, $0.baseAddress!, own.count) == 0)
            }
        }
        return (areSame ?? nil) ?? utf8.elementsEqual(other.utf8)
    }
}

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

/// A name as SQLite compares names: by bytes, except for the case of ASCII letters.
package struct FoldedName: Hashable, Sendable {
    private let bytes: [UInt8]

    package init(_ name: String) {
        bytes = name.utf8.map { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) ? $0 | 0x20 : $0 }
    }

    func hasPrefix(_ prefix: String) -> Bool { bytes.starts(with: prefix.utf8) }
}

extension Dictionary where Key == ExactText {
    /// Of equal names, the first one counts.
    package init(firstOf pairs: some Sequence<(name: String, value: Value)>) {
        self.init(pairs.map { (ExactText($0.name), $0.value) }, uniquingKeysWith: { first, _ in first })
    }

    package subscript(name: String) -> Value? {
        get { self[ExactText(name)] }
        set { self[ExactText(name)] = newValue }
    }
}
