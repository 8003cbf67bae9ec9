internal import CLZ4

/// Compresses messages into frames, one after the other. Use one per thread or event loop: it reuses its memory.
///
/// A small content is not compressed (``StoredFrame``). Blocks are independent (linking them costs time and saves
/// almost nothing), of 64 KiB for content that fits in one and of 256 KiB for more. The frame declares the content's
/// size, so that the reader allocates memory once. There is no content checksum: it doubles the time to write a large
/// frame and multiplies the time to read it, while a Unix socket does not corrupt data, and the receiver checks the
/// JSON as a whole.
// It is the only owner of its context and has only mutating methods, so it may move between threads.
package struct FrameEncoder: ~Copyable, @unchecked Sendable {
    package let limits: FrameLimits
    private let context: OpaquePointer

    package init(limits: FrameLimits = FrameLimits()) {
        var context: OpaquePointer?
        let status = LZ4F_createCompressionContext(&context, UInt32(LZ4F_VERSION))
        guard LZ4F_isError(status) == 0, let context else {
            preconditionFailure("out of memory for an LZ4 compression context")
        }
        self.limits = limits
        self.context = context
    }

    deinit { LZ4F_freeCompressionContext(context) }

    /// Returns the whole frame of `content`: the length and the LZ4 frame.
    ///
    /// - Throws: `contentTooLarge`, or `frameTooLarge` when it does not compress below the limit.
    package mutating func encode(_ content: [UInt8]) throws(WireError) -> [UInt8] {
        // A closure of the standard library cannot throw a typed error, so the result carries it.
        try content.withUnsafeBytes { bytes in Result { () throws(WireError) in try encode(bytes) } }.get()
    }

    package mutating func encode(_ content: UnsafeRawBufferPointer) throws(WireError) -> [UInt8] {
        guard content.count <= limits.maximumContentCount else {
            throw WireError(
                .contentTooLarge,
                """
                The message is \(content.count.grouped) bytes long; the limit is \
                \(limits.maximumContentCount.grouped). Split it into several.
                """)
        }
        if let frame = StoredFrame.encode(content, limits: limits) { return frame }
        let prefixCount = FrameScanner.prefixCount
        var preferences = Self.preferences(for: content.count)
        let capacity = prefixCount + LZ4F_compressFrameBound(content.count, &preferences)
        let frame = [UInt8](unsafeUninitializedCapacity: capacity) { buffer, count in
            let destination = UnsafeMutableRawBufferPointer(buffer)
            let payloadCount = compress(
                content, into: UnsafeMutableRawBufferPointer(rebasing: destination.dropFirst(prefixCount)), &preferences
            )
            destination.storeBytes(of: UInt32(truncatingIfNeeded: payloadCount).bigEndian, as: UInt32.self)
            count = prefixCount + payloadCount
        }
        guard frame.count - prefixCount <= limits.maximumPayloadCount else {
            throw WireError(
                .frameTooLarge,
                """
                The message is \((frame.count - prefixCount).grouped) bytes long even when compressed; the limit is \
                \(limits.maximumPayloadCount.grouped). Split it into several.
                """)
        }
        // Frames wait in queues, so they take no more memory than they need.
        return frame.count < capacity / 2 ? frame.withUnsafeBytes { Array($0) } : frame
    }

    /// Returns the number of bytes written. The destination has the size that liblz4 requires, so nothing can fail.
    private func compress(
        _ content: UnsafeRawBufferPointer, into destination: UnsafeMutableRawBufferPointer,
        _ preferences: inout LZ4F_preferences_t
    ) -> Int {
        var options = LZ4F_compressOptions_t()
        options.stableSrc = 1
        let start = destination.baseAddress!
        var count = 0
        func take(_ written: Int) {
            precondition(LZ4F_isError(written) == 0, "liblz4: \(String(cString: LZ4F_getErrorName(written)))")
            count += written
        }
        take(LZ4F_compressBegin(context, start, destination.count, &preferences))
        if let source = content.baseAddress, !content.isEmpty {
            take(
                LZ4F_compressUpdate(context, start + count, destination.count - count, source, content.count, &options))
        }
        take(LZ4F_compressEnd(context, start + count, destination.count - count, &options))
        return count
    }

    private static func preferences(for count: Int) -> LZ4F_preferences_t {
        var preferences = LZ4F_preferences_t()
        preferences.frameInfo.blockSizeID = count <= 64 << 10 ? LZ4F_max64KB : LZ4F_max256KB
        preferences.frameInfo.blockMode = LZ4F_blockIndependent
        preferences.frameInfo.contentSize = UInt64(count)
        preferences.autoFlush = 1
        return preferences
    }
}
