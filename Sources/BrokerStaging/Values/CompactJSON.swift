import BrokerJSON

/// JSON text without white space between its tokens.
enum CompactJSON {
    /// Returns the value's text: its bytes in the document if they are compact, otherwise a copy in the arena.
    static func text(of value: JSONValue, arena: inout ByteArena) -> UnsafeBufferPointer<UInt8> {
        switch value.kind {
        case .null, .false, .true, .number: value.bytes
        case .string: quoted(value, arena: &arena)
        case .array, .object: compact(value.bytes, arena: &arena)
        }
    }

    private static func quoted(_ string: JSONValue, arena: inout ByteArena) -> UnsafeBufferPointer<UInt8> {
        let content = string.bytes
        guard string.hadEscapes else {
            // In the document, quotes enclose the content.
            return UnsafeBufferPointer(start: content.baseAddress! - 1, count: content.count + 2)
        }
        var writer = JSONWriter(capacity: content.count + content.count / 4 + 2)
        writer.string(content)
        return arena.store(writer.bytes)
    }

    private static func compact(
        _ text: UnsafeBufferPointer<UInt8>, arena: inout ByteArena
    ) -> UnsafeBufferPointer<UInt8> {
        let compactCount = nextSpace(in: text, from: 0)
        guard compactCount < text.count else { return text }
        let space = arena.allocate(text.count)
        var end = 0
        var start = 0
        while start < text.count {
            let next = nextSpace(in: text, from: start)
            for index in start..<next {
                space[end] = text[index]
                end += 1
            }
            start = next + 1
        }
        arena.giveBack(text.count - end)
        return UnsafeBufferPointer(rebasing: space[..<end])
    }

    /// Returns the index of the first white space outside of strings, from an index outside of strings; the end when
    /// there is none.
    private static func nextSpace(in text: UnsafeBufferPointer<UInt8>, from start: Int) -> Int {
        var index = start
        while index < text.count {
            let byte = text[index]
            if byte <= 0x20 { return index }
            index += 1
            guard byte == UInt8(ascii: "\"") else { continue }
            while text[index] != UInt8(ascii: "\"") { index += text[index] == UInt8(ascii: "\\") ? 2 : 1 }
            index += 1
        }
        return index
    }
}
