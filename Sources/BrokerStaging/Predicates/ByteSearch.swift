/// Finds a text within others, in time linear in both (Knuth, Morris and Pratt 1977).
struct ByteSearch: Sendable {
    private let wanted: [UInt8]
    /// For each byte, how many bytes of the beginning end there as well.
    private let borders: [Int]

    init(_ wanted: [UInt8]) {
        var borders = [Int](repeating: 0, count: wanted.count)
        var length = 0
        for index in wanted.indices.dropFirst() {
            while length > 0, wanted[index] != wanted[length] { length = borders[length - 1] }
            if wanted[index] == wanted[length] { length += 1 }
            borders[index] = length
        }
        self.wanted = wanted
        self.borders = borders
    }

    /// The empty text is within every one.
    func isWithin(_ text: UnsafeBufferPointer<UInt8>) -> Bool {
        guard !wanted.isEmpty else { return true }
        var length = 0
        for byte in text {
            while length > 0, byte != wanted[length] { length = borders[length - 1] }
            if byte == wanted[length] { length += 1 }
            if length == wanted.count { return true }
        }
        return false
    }
}
