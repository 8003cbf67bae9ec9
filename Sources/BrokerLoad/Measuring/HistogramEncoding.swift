internal import CZlib

/// The second version of HdrHistogram's encoding, and its compression, as the readers for Java and Python have them
/// (HdrHistogram, `AbstractHistogram.encodeIntoByteBuffer` and `HistogramLogWriter`).
///
/// All numbers are big-endian; counts are ZigZag LEB128, and a negative one is a run of zeros.
package enum HistogramEncoding {
    private static let cookie: Int32 = 0x1C84_9313
    private static let compressedCookie: Int32 = 0x1C84_9314
    private static let digits: Int32 = 3
    /// For three digits: 2,048 values have a bucket each, and every doubling above has 1,024 buckets.
    private static let subBucketMagnitude = 11
    private static let subBuckets = 1 << subBucketMagnitude

    /// A histogram in the form of a log, before Base64: compressed.
    static func payload(_ histogram: LatencyHistogram) -> [UInt8] {
        let plain = plain(histogram)
        let compressed = deflate(plain)
        var bytes: [UInt8] = []
        append(compressedCookie, to: &bytes)
        append(Int32(compressed.count), to: &bytes)
        return bytes + compressed
    }

    private static func plain(_ histogram: LatencyHistogram) -> [UInt8] {
        var counts: [UInt8] = []
        var next = 0
        for (value, count) in histogram.recorded {
            let index = index(of: value)
            if index > next { appendZigZag(-Int64(index - next), to: &counts) }
            appendZigZag(Int64(count), to: &counts)
            next = index + 1
        }
        var bytes: [UInt8] = []
        append(cookie, to: &bytes)
        append(Int32(counts.count), to: &bytes)
        append(Int32(0), to: &bytes)  // the offset of the indexes
        append(digits, to: &bytes)
        append(Int64(1), to: &bytes)  // the lowest value
        append(Int64(LatencyHistogram.highest), to: &bytes)
        append(Int64(bitPattern: (1.0).bitPattern), to: &bytes)  // doubles for integers
        return bytes + counts
    }

    /// The index of the count of a value.
    static func index(of value: UInt64) -> Int {
        let bucket = 64 - (value | UInt64(subBuckets - 1)).leadingZeroBitCount - subBucketMagnitude
        let half = subBuckets / 2
        return (bucket + 1) * half + Int(value >> UInt64(bucket)) - half
    }

    private static func appendZigZag(_ number: Int64, to bytes: inout [UInt8]) {
        var rest = UInt64(bitPattern: number << 1 ^ number >> 63)
        while rest > 0x7F {
            bytes.append(UInt8(rest & 0x7F) | 0x80)
            rest >>= 7
        }
        bytes.append(UInt8(rest))
    }

    private static func append(_ number: some FixedWidthInteger, to bytes: inout [UInt8]) {
        withUnsafeBytes(of: number.bigEndian) { bytes.append(contentsOf: $0) }
    }

    private static func deflate(_ bytes: [UInt8]) -> [UInt8] {
        var count = compressBound(UInt(bytes.count))
        var compressed = [UInt8](repeating: 0, count: Int(count))
        let status = compress(&compressed, &count, bytes, UInt(bytes.count))
        precondition(status == Z_OK, "zlib does not compress into what it asked for: \(status)")
        return Array(compressed.prefix(Int(count)))
    }
}
