import CZlib

/// Unpacks gzip (RFC 1952): one member or several, one after the other, and zeros after the last one.
final class GzipBytes: ByteSource {
    private static let pieceBytes = 256 << 10

    private let packed: any ByteSource
    // zlib keeps a pointer to the stream, so it must not move.
    private let stream: UnsafeMutablePointer<z_stream>
    private var chunk: [UInt8] = []
    /// Bytes of ``chunk`` that were unpacked.
    private var consumed = 0
    private var state = State.inside

    private enum State {
        /// Inside a member.
        case inside
        /// After a member; zeros followed it, so no other member may follow.
        case behind(padding: Bool)
        case ended
    }

    init(_ packed: any ByteSource) throws(ByteFault) {
        self.packed = packed
        stream = .allocate(capacity: 1)
        stream.initialize(to: z_stream())
        guard broker_zlib_inflate_gzip(stream) == Z_OK else {
            throw .damaged("there is no memory left to unpack the gzip data")
        }
    }

    deinit {
        inflateEnd(stream)
        stream.deallocate()
    }

    var bytesRead: Int { packed.bytesRead }

    func next() throws(ByteFault) -> [UInt8] {
        while true {
            switch state {
            case .ended: return []
            case .inside:
                let piece = try unpack()
                if !piece.isEmpty { return piece }
            case .behind(let padding): try goOn(padding)
            }
        }
    }

    private func unpack() throws(ByteFault) -> [UInt8] {
        var status = Z_OK
        var needsInput = false
        let piece = [UInt8](unsafeUninitializedCapacity: Self.pieceBytes) { space, filled in
            chunk.withUnsafeMutableBufferPointer { chunk in
                stream.pointee.next_in = chunk.baseAddress.map { $0 + consumed }
                stream.pointee.avail_in = UInt32(chunk.count - consumed)
                stream.pointee.next_out = space.baseAddress
                stream.pointee.avail_out = UInt32(space.count)
                status = inflate(stream, Z_NO_FLUSH)
                consumed = chunk.count - Int(stream.pointee.avail_in)
            }
            filled = space.count - Int(stream.pointee.avail_out)
            needsInput = filled == 0
        }
        switch status {
        case Z_STREAM_END: state = .behind(padding: false)
        case Z_OK, Z_BUF_ERROR:
            if needsInput, consumed == chunk.count, try !refill() {
                throw .damaged(
                    "the gzip data ends in the middle (\(bytesRead) bytes of the file were read); copy it again")
            }
        default:
            let reason = stream.pointee.msg.map { String(cString: $0) } ?? "zlib's error \(status)"
            throw .damaged("the gzip data is damaged (\(reason)); copy it again")
        }
        return piece
    }

    /// Searches for another member.
    private func goOn(_ padding: Bool) throws(ByteFault) {
        if consumed == chunk.count, try !refill() {
            state = .ended
        } else if chunk[consumed] == 0 {
            consumed += 1
            state = .behind(padding: true)
        } else if chunk[consumed] == 0x1F, !padding {
            inflateReset(stream)
            state = .inside
        } else {
            throw .damaged("the gzip data is followed by something else, from \(chunk[consumed].asSeen) on")
        }
    }

    /// False at the end.
    private func refill() throws(ByteFault) -> Bool {
        chunk = try packed.next()
        consumed = 0
        return !chunk.isEmpty
    }
}
