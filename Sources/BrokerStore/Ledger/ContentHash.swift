/// SipHash-2-4 with 128 bits of output (Aumasson and Bernstein, 2012), under a fixed key.
///
/// It detects whether a repeated job has the same content. It does not resist deliberate collisions; a sender who finds
/// one could only harm the jobs whose ids it knows.
package enum ContentHash {
    package static let byteCount = 16

    package static func hash(_ bytes: UnsafeRawBufferPointer, key: (UInt64, UInt64) = (0x6272_6F6B_6572, 0x6A6F_6273))
        -> [UInt8]
    {
        var state = SipState(key, isLong: true)
        state.absorb(bytes, last: UInt64(bytes.count & 0xFF) << 56)
        let (low, high) = state.finish()
        return withUnsafeBytes(of: (low.littleEndian, high.littleEndian), Array.init)
    }

    /// The state of SipHash-c-d.
    fileprivate struct SipState {
        /// Two rounds for each word and four at the end; otherwise one and three.
        private let isLong: Bool
        private var v0: UInt64
        private var v1: UInt64
        private var v2: UInt64
        private var v3: UInt64

        init(_ key: (UInt64, UInt64), isLong: Bool) {
            self.isLong = isLong
            v0 = key.0 ^ 0x736F_6D65_7073_6575
            v1 = key.1 ^ 0x646F_7261_6E64_6F6D ^ 0xEE
            v2 = key.0 ^ 0x6C79_6765_6E65_7261
            v3 = key.1 ^ 0x7465_6462_7974_6573
        }

        mutating func absorb(_ word: UInt64) { absorb(word, isLong: isLong) }

        @inline(__always)
        private mutating func absorb(_ word: UInt64, isLong: Bool) {
            v3 ^= word
            round()
            if isLong { round() }
            v0 ^= word
        }

        /// In registers, and without a test for each word.
        @inline(__always)
        private mutating func absorb(words bytes: UnsafeRawBufferPointer, isLong: Bool) {
            var state = self
            for word in 0..<bytes.count / 8 {
                let word = bytes.loadUnaligned(fromByteOffset: word * 8, as: UInt64.self)
                state.absorb(UInt64(littleEndian: word), isLong: isLong)
            }
            self = state
        }

        /// - Parameter last: the beginning of the last word, which has the bytes after the last whole word.
        mutating func absorb(_ bytes: UnsafeRawBufferPointer, last: UInt64) {
            if isLong { absorb(words: bytes, isLong: true) } else { absorb(words: bytes, isLong: false) }
            var last = last
            for (position, byte) in bytes.dropFirst(bytes.count & ~7).enumerated() {
                last |= UInt64(byte) << (8 * UInt64(position))
            }
            absorb(last)
        }

        mutating func finish() -> (UInt64, UInt64) {
            v2 ^= 0xEE
            for _ in 0..<(isLong ? 4 : 3) { round() }
            let low = v0 ^ v1 ^ v2 ^ v3
            v1 ^= 0xDD
            for _ in 0..<(isLong ? 4 : 3) { round() }
            return (low, v0 ^ v1 ^ v2 ^ v3)
        }

        @inline(__always)
        private mutating func round() {
            v0 &+= v1
            v1 = rotate(v1, 13) ^ v0
            v0 = rotate(v0, 32)
            v2 &+= v3
            v3 = rotate(v3, 16) ^ v2
            v0 &+= v3
            v3 = rotate(v3, 21) ^ v0
            v2 &+= v1
            v1 = rotate(v1, 17) ^ v2
            v2 = rotate(v2, 32)
        }

        @inline(__always)
        private func rotate(_ word: UInt64, _ count: UInt64) -> UInt64 { word << count | word >> (64 - count) }
    }
}

/// Hashes a sequence of fields with 128 bits of output. Each field is hashed with its length, so no two sequences are the same
/// bytes.
package struct FieldHasher {
    /// The first byte of each hash that ``finish()`` returns.
    private static let marker: UInt8 = 3

    /// SipHash-1-3: a job's content is hashed byte by byte, which with SipHash-2-4 took 5 % of a load that changes nothing.
    private var state = ContentHash.SipState((0x6272_6F6B_6572, 0x6669_656C_6473), isLong: false)

    package init() {}

    package mutating func add(_ number: UInt64) { state.absorb(number) }

    package mutating func add(_ bytes: UnsafeRawBufferPointer) {
        state.absorb(UInt64(bytes.count))
        state.absorb(bytes, last: 0)
    }

    package mutating func add(_ text: String) {
        var text = text
        text.withUTF8 { add(UnsafeRawBufferPointer($0)) }
    }

    /// The marker and 16 bytes.
    package func finish() -> JobHash {
        var state = state
        let (low, high) = state.finish()
        return withUnsafeTemporaryAllocation(byteCount: 17, alignment: 1) { bytes in
            bytes[0] = Self.marker
            bytes.storeBytes(of: low.littleEndian, toByteOffset: 1, as: UInt64.self)
            bytes.storeBytes(of: high.littleEndian, toByteOffset: 9, as: UInt64.self)
            return JobHash(UnsafeRawBufferPointer(bytes))
        }
    }
}
