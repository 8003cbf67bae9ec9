internal import Glibc

/// Comparing and hashing byte ranges.
enum Bytes {
    @inline(__always)
    static func areEqual(_ left: UnsafeBufferPointer<UInt8>, _ right: UnsafeBufferPointer<UInt8>) -> Bool {
        let count = left.count
        guard count == right.count else { return false }
        // Keys and identities are mostly short: comparing two overlapping words is faster than a function call.
        if count >= 8, count <= 16 {
            return word(left, 0, UInt64.self) == word(right, 0, UInt64.self)
                && word(left, count - 8, UInt64.self) == word(right, count - 8, UInt64.self)
        }
        if count >= 4, count < 8 {
            return word(left, 0, UInt32.self) == word(right, 0, UInt32.self)
                && word(left, count - 4, UInt32.self) == word(right, count - 4, UInt32.self)
        }
        return count == 0 || memcmp(left.baseAddress!, right.baseAddress!, count) == 0
    }

    @inline(__always)
    private static func word<Word: BitwiseCopyable>(
        _ bytes: UnsafeBufferPointer<UInt8>, _ offset: Int, _ type: Word.Type
    ) -> Word {
        UnsafeRawPointer(bytes.baseAddress!).loadUnaligned(fromByteOffset: offset, as: type)
    }

    /// The eight bytes from that offset on; the first one is the lowest.
    @inline(__always)
    static func word(_ bytes: UnsafeBufferPointer<UInt8>, at offset: Int) -> UInt64 {
        UInt64(littleEndian: word(bytes, offset, UInt64.self))
    }

    /// The four bytes from one offset on, and above them those from another.
    @inline(__always)
    static func halves(_ bytes: UnsafeBufferPointer<UInt8>, at first: Int, _ second: Int) -> UInt64 {
        let (low, high) = (word(bytes, first, UInt32.self), word(bytes, second, UInt32.self))
        return UInt64(UInt32(littleEndian: low)) | UInt64(UInt32(littleEndian: high)) << 32
    }

    /// The order of SQLite's BINARY collation.
    static func precedes(_ left: UnsafeBufferPointer<UInt8>, _ right: UnsafeBufferPointer<UInt8>) -> Bool {
        order(left, right) < 0
    }

    /// Returns a negative number when the left range precedes the right one in that order.
    static func order(_ left: UnsafeBufferPointer<UInt8>, _ right: UnsafeBufferPointer<UInt8>) -> Int {
        let shared = min(left.count, right.count)
        let order = shared == 0 ? 0 : memcmp(left.baseAddress!, right.baseAddress!, shared)
        return order == 0 ? left.count - right.count : Int(order)
    }

    /// Returns a hash that differs between processes, so that no client can provoke collisions.
    @inline(__always)
    static func hash(_ bytes: UnsafeBufferPointer<UInt8>, into state: UInt64) -> UInt64 {
        var state = mix(state, UInt64(bytes.count))
        var rest = UnsafeRawBufferPointer(bytes)
        while rest.count >= 8 {
            state = mix(state, rest.loadUnaligned(as: UInt64.self))
            rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(8))
        }
        var tail: UInt64 = 0
        for byte in rest { tail = tail << 8 | UInt64(byte) }
        return mix(state, tail)
    }

    @inline(__always)
    static func mix(_ state: UInt64, _ value: UInt64) -> UInt64 {
        let product = (state ^ value).multipliedFullWidth(by: 0x9E37_79B9_7F4A_7C15)
        return product.high ^ product.low
    }

    static let seed = UInt64.random(in: 1...UInt64.max)
}

/// A key that is a range of bytes, compared byte by byte. Its owner must keep the bytes alive.
///
/// External texts are not used as `String` keys: `String` compares by Unicode's normal forms, in quadratic time.
struct BytesKey: Hashable {
    let bytes: UnsafeBufferPointer<UInt8>

    static func == (left: BytesKey, right: BytesKey) -> Bool { Bytes.areEqual(left.bytes, right.bytes) }

    func hash(into hasher: inout Hasher) { hasher.combine(bytes: UnsafeRawBufferPointer(bytes)) }
}
