internal import CTape

/// Finds what is wrong with a text's characters and strings, whatever its grammar is.
enum LexicalFaults {
    /// Returns the first one; nil when there is none.
    static func first(in text: UnsafeRawBufferPointer) -> TapeFault? {
        guard let start = text.baseAddress?.assumingMemoryBound(to: UInt8.self) else { return nil }
        let end = start + text.count
        var next = start
        var opened: UnsafePointer<UInt8>?
        while next < end {
            var size = UTF8Sequence.length(next, end)
            guard size > 0 else { return TapeFault(BROKER_JSON_NOT_UTF8, at: next - start) }
            if opened == nil {
                if next.pointee == UInt8(ascii: "\"") { opened = next }
            } else if next.pointee == UInt8(ascii: "\"") {
                opened = nil
            } else {
                if next.pointee == UInt8(ascii: "\\"), next + 1 < end {
                    next += 1
                    size = UTF8Sequence.length(next, end)
                    guard size > 0 else { return TapeFault(BROKER_JSON_NOT_UTF8, at: next - start) }
                }
                guard next.pointee >= 0x20 else { return TapeFault(BROKER_JSON_CONTROL_CHARACTER, at: next - start) }
            }
            next += size
        }
        return opened.map { TapeFault(BROKER_JSON_UNCLOSED_STRING, at: $0 - start) }
    }
}

enum UTF8Sequence {
    /// Length of the well-formed sequence at `start` (Unicode 15, table 3-7), 0 if there is none.
    @inline(__always)
    static func length(_ start: UnsafePointer<UInt8>, _ end: UnsafePointer<UInt8>) -> Int {
        func trails(_ index: Int, _ low: UInt8 = 0x80, _ high: UInt8 = 0xBF) -> Bool {
            start + index < end && start[index] >= low && start[index] <= high
        }
        let byte = start.pointee
        switch byte {
        case 0..<0x80: return 1
        case 0xC2...0xDF: return trails(1) ? 2 : 0
        case 0xE0...0xEF: return trails(1, byte == 0xE0 ? 0xA0 : 0x80, byte == 0xED ? 0x9F : 0xBF) && trails(2) ? 3 : 0
        case 0xF0...0xF4:
            return trails(1, byte == 0xF0 ? 0x90 : 0x80, byte == 0xF4 ? 0x8F : 0xBF) && trails(2) && trails(3) ? 4 : 0
        default: return 0
        }
    }
}
