internal import Glibc

/// Counts the attributes of a tag that is not complete yet.
struct OpenTag {
    private(set) var attributeCount = 0
    private var start = -1
    private var scannedCount = 0
    private var quote: UInt8?

    /// - Parameters:
    ///   - bytes: the tag so far; each byte is read once.
    ///   - offset: its offset in the document.
    mutating func read(_ bytes: UnsafeBufferPointer<UInt8>, at offset: Int) {
        if offset != start { self = OpenTag(start: offset) }
        defer { scannedCount = bytes.count }
        guard let base = bytes.baseAddress else { return }
        var index = scannedCount
        while index < bytes.count {
            if let open = quote {
                guard let end = memchr(base + index, Int32(open), bytes.count - index) else { return }
                index = UnsafeRawPointer(end) - UnsafeRawPointer(base)
                quote = nil
            } else if bytes[index] == UInt8(ascii: "\"") || bytes[index] == UInt8(ascii: "'") {
                quote = bytes[index]
                attributeCount += 1
            }
            index += 1
        }
    }

    init() {}

    private init(start: Int) { self.start = start }
}
