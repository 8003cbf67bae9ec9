import CLZ4

/// Unpacks LZ4 frames: one or several, one after the other, as the `lz4` program does.
final class LZ4Bytes: ByteSource {
    private static let pieceBytes = 256 << 10

    private let packed: any ByteSource
    private let context: OpaquePointer
    private var chunk: [UInt8] = []
    /// Bytes of ``chunk`` that were unpacked.
    private var consumed = 0
    /// Between two frames, or after the last one.
    private var isBetween = true

    init(_ packed: any ByteSource) throws(ByteFault) {
        self.packed = packed
        var context: OpaquePointer?
        guard LZ4F_isError(LZ4F_createDecompressionContext(&context, UInt32(LZ4F_VERSION))) == 0, let context else {
            throw .damaged("there is no memory left to unpack the LZ4 data")
        }
        self.context = context
    }

    deinit { LZ4F_freeDecompressionContext(context) }

    var bytesRead: Int { packed.bytesRead }

    func next() throws(ByteFault) -> [UInt8] {
        while true {
            let piece = try unpack()
            if !piece.isEmpty { return piece }
            guard consumed == chunk.count else { continue }
            chunk = try packed.next()
            consumed = 0
            guard chunk.isEmpty else { continue }
            if isBetween { return [] }
            throw .damaged("the LZ4 data ends in the middle (\(bytesRead) bytes of the file were read); copy it again")
        }
    }

    private func unpack() throws(ByteFault) -> [UInt8] {
        // The library returns its buffered bytes without any input, but between two frames it has none.
        if isBetween, consumed == chunk.count { return [] }
        var hint = 0
        let piece = [UInt8](unsafeUninitializedCapacity: Self.pieceBytes) { space, filled in
            chunk.withUnsafeBufferPointer { chunk in
                filled = space.count
                var taken = chunk.count - consumed
                hint = LZ4F_decompress(
                    context, space.baseAddress, &filled, chunk.baseAddress.map { $0 + consumed }, &taken, nil)
                if LZ4F_isError(hint) != 0 { filled = 0 } else { consumed += taken }
            }
        }
        guard LZ4F_isError(hint) == 0 else {
            let reason = String(cString: LZ4F_getErrorName(hint))
            throw .damaged("the LZ4 data is damaged or followed by something else (\(reason)); copy it again")
        }
        isBetween = hint == 0
        return piece
    }
}
