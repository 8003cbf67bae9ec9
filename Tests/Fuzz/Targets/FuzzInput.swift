/// Takes an input apart, so that some of its bytes choose what is done with the others.
struct FuzzInput {
    private(set) var rest: UnsafeRawBufferPointer

    init(_ bytes: UnsafeRawBufferPointer) { rest = bytes }

    /// The next byte; 0 when there is none.
    mutating func byte() -> UInt8 {
        guard let first = rest.first else { return 0 }
        rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst())
        return first
    }

    /// The bytes before the next line feed, which is skipped, or all remaining bytes.
    mutating func line() -> UnsafeRawBufferPointer {
        let end = rest.firstIndex(of: UInt8(ascii: "\n")) ?? rest.endIndex
        let line = UnsafeRawBufferPointer(rebasing: rest[..<end])
        rest = UnsafeRawBufferPointer(rebasing: rest[end...].dropFirst())
        return line
    }

    /// The remaining bytes as text; invalid UTF-8 is replaced.
    var text: String { String(decoding: rest, as: UTF8.self) }
}
