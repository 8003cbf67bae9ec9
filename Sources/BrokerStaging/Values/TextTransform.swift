import BrokerModel

/// The transforms of an attribute, in their order.
///
/// White space has no case, so trimming comes first, wherever the model lists it.
struct TextTransform: Sendable {
    private enum CaseChange {
        case upper, lower
    }

    private let trims: Bool
    private let caseChanges: [CaseChange]
    /// The effect on ASCII: there only the last change shows.
    private let lastChange: CaseChange?

    /// Returns nil for an empty list.
    init?(_ transforms: [Transform]) {
        guard !transforms.isEmpty else { return nil }
        trims = transforms.contains(.trim)
        caseChanges = transforms.compactMap { transform in
            switch transform {
            case .trim: nil
            case .uppercase: .upper
            case .lowercase: .lower
            }
        }
        lastChange = caseChanges.last
    }

    /// Returns the text itself or a part of it if that suffices; otherwise a copy in the arena.
    func apply(to text: UnsafeBufferPointer<UInt8>, arena: inout ByteArena) -> UnsafeBufferPointer<UInt8> {
        let text = trims ? WhiteSpace.trim(text) : text
        guard let lastChange else { return text }
        // Letters of one case are one range, and bit 0x20 is the case.
        let first = lastChange == .upper ? UInt8(ascii: "a") : UInt8(ascii: "A")
        var hasLetters = false
        var union: UInt8 = 0
        for byte in text {
            hasLetters = hasLetters || byte &- first < 26
            union |= byte
        }
        guard union < 0x80 else { return unicode(text, arena: &arena) }
        guard hasLetters else { return text }
        let changed = arena.allocate(text.count)
        for index in 0..<text.count {
            let byte = text[index]
            changed[index] = byte &- first < 26 ? byte ^ 0x20 : byte
        }
        return UnsafeBufferPointer(changed)
    }

    private func unicode(
        _ text: UnsafeBufferPointer<UInt8>, arena: inout ByteArena
    ) -> UnsafeBufferPointer<UInt8> {
        var string = String(decoding: text, as: UTF8.self)
        for change in caseChanges { string = change == .upper ? string.uppercased() : string.lowercased() }
        return arena.store(string.utf8)
    }
}
