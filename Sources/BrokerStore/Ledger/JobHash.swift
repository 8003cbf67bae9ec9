/// The bytes of a job's hash, without an allocation: those of a ``FieldHasher`` have 17 bytes.
package struct JobHash: Sendable, Equatable, ExpressibleByArrayLiteral {
    private var words: (UInt64, UInt64, UInt64) = (0, 0, 0)
    private var count = 0
    /// All bytes, if they are more than the words have.
    private var long: [UInt8]?

    package init(_ bytes: UnsafeRawBufferPointer) {
        count = bytes.count
        if count > MemoryLayout.size(ofValue: words) {
            long = Array(bytes)
        } else {
            withUnsafeMutableBytes(of: &words) { $0.copyMemory(from: bytes) }
        }
    }

    package init(_ bytes: [UInt8]) { self = bytes.withUnsafeBytes { JobHash($0) } }

    package init(arrayLiteral elements: UInt8...) { self.init(elements) }

    package func withBytes<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        if let long { return long.withUnsafeBytes(body) }
        return withUnsafeBytes(of: words) { body(UnsafeRawBufferPointer(rebasing: $0[..<count])) }
    }

    package static func == (left: JobHash, right: JobHash) -> Bool {
        left.count == right.count && left.words == right.words && left.long == right.long
    }
}
