import Testing

@testable import BrokerStaging

/// Comparison of byte ranges.
@Suite(.timeLimit(.minutes(5))) struct BytesTests {
    @Test func `ranges of any length are equal only when every byte is`() {
        func areEqual(_ left: [UInt8], _ right: [UInt8]) -> Bool {
            left.withUnsafeBufferPointer { left in
                right.withUnsafeBufferPointer { Bytes.areEqual(left, $0) }
            }
        }
        for count in 0...40 {
            let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 * 37 + 5) }
            #expect(areEqual(bytes, Array(bytes)), "\(count) bytes")
            #expect(!areEqual(bytes, bytes + [0]), "\(count) bytes and one more")
            for position in bytes.indices {
                var other = bytes
                other[position] ^= 0x80
                #expect(!areEqual(bytes, other), "the byte \(position) of \(count)")
            }
        }
    }
}
