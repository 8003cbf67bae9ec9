import CLZ4
import CZlib
import Foundation
import Glibc
import Synchronization

/// The contents of a file: unpacked, when its first bytes are those of gzip or lz4; otherwise unchanged.
final class UnpackedBytes: ByteSource {
    private let packed: any ByteSource
    private let maximumBytes: Int
    private var hasBegun = false
    /// Nil for bytes that are not packed.
    private var unpacker: (any Unpacker)?
    private var chunk: [UInt8] = []
    /// Bytes of ``chunk`` that were unpacked.
    private var consumed = 0
    private var count = 0

    init(_ packed: any ByteSource, maximumBytes: Int = .max) {
        self.packed = packed
        self.maximumBytes = maximumBytes
    }

    var bytesRead: Int { packed.bytesRead }

    func isReady(within milliseconds: Int32) -> Bool {
        consumed < chunk.count && hasBegun || packed.isReady(within: milliseconds)
    }

    func next() throws(InputFault) -> [UInt8] {
        let bytes = try unpacked()
        count += bytes.count
        guard count <= maximumBytes else {
            throw .damaged("there are more than \(maximumBytes) bytes, unpacked; --max-bytes allows more")
        }
        return bytes
    }

    private func unpacked() throws(InputFault) -> [UInt8] {
        if !hasBegun {
            try begin()
            if unpacker == nil { return chunk }
        }
        guard let unpacker else { return try packed.next() }
        while true {
            // The unpacker returns its buffered bytes without any input, but between two parts it has none.
            if consumed < chunk.count || !unpacker.isBetween {
                let piece = try unpacker.unpack(chunk, &consumed)
                if !piece.isEmpty { return piece }
            }
            guard consumed == chunk.count else { continue }
            chunk = try packed.next()
            consumed = 0
            guard chunk.isEmpty else { continue }
            if unpacker.isBetween { return [] }
            throw .damaged(
                "the \(unpacker.name) data ends in the middle (\(bytesRead) bytes of the file were read); copy it again"
            )
        }
    }

    /// Reads the first bytes, and chooses how they are unpacked.
    private func begin() throws(InputFault) {
        hasBegun = true
        // A pipe may return single bytes.
        while Packing.all.contains(where: { $0.mayBegin(with: chunk) }) {
            let more = try packed.next()
            if more.isEmpty { break }
            chunk += more
        }
        guard let packing = Packing.all.first(where: { chunk.starts(with: $0.mark) }) else { return }
        switch packing.kind {
        case .gzip: unpacker = try GzipUnpacker()
        case .lz4: unpacker = try LZ4Unpacker()
        case .unread(let command):
            throw .damaged("the input is packed by \(packing.name); unpack it first: \(command)")
        }
    }
}

/// Unpacks parts one after the other: members of gzip, or frames of LZ4.
private protocol Unpacker: AnyObject {
    var name: String { get }
    /// Between two parts, or after the last one.
    var isBetween: Bool { get }

    func unpack(_ chunk: [UInt8], _ consumed: inout Int) throws(InputFault) -> [UInt8]
}

/// Unpacked bytes of one call.
private let pieceBytes = 256 << 10

/// A compression format, and its first bytes.
private struct Packing {
    enum Kind {
        case gzip, lz4
        /// A format that is reported by name, with the command that unpacks it.
        case unread(String)
    }

    let name: String
    let mark: [UInt8]
    let kind: Kind

    func mayBegin(with bytes: [UInt8]) -> Bool { bytes.count < mark.count && mark.starts(with: bytes) }

    /// No text begins with any of these; bzip2's bytes are those of its default level.
    static let all = [
        Packing(name: "gzip", mark: [0x1F, 0x8B], kind: .gzip),
        Packing(name: "lz4", mark: [0x04, 0x22, 0x4D, 0x18], kind: .lz4),
        Packing(
            name: "lz4 in its legacy format", mark: [0x02, 0x21, 0x4C, 0x18], kind: .unread("lz4 -dc FILE | broker …")),
        Packing(name: "zstd", mark: [0x28, 0xB5, 0x2F, 0xFD], kind: .unread("zstd -dc FILE | broker …")),
        Packing(name: "xz", mark: [0xFD, 0x37, 0x7A, 0x58, 0x5A, 0x00], kind: .unread("xz -dc FILE | broker …")),
        Packing(name: "bzip2", mark: Array("BZh91AY&SY".utf8), kind: .unread("bzip2 -dc FILE | broker …")),
        Packing(
            name: "zip", mark: Array("PK".utf8) + [0x03, 0x04],
            kind: .unread("unzip -p FILE | broker … (a spreadsheet? save it as CSV)")),
    ]
}

/// The bytes of an input, piece after piece. Belongs to one thread, which may block.
package protocol ByteSource: AnyObject {
    /// Returns the next bytes as soon as there are some; none at the end.
    ///
    /// - Throws: a fault without a place when a system call failed, and with one when the bytes cannot be unpacked.
    func next() throws(InputFault) -> [UInt8]

    /// The number of bytes of the file that were read so far, before unpacking.
    var bytesRead: Int { get }

    /// Whether ``next()`` returns within that time.
    func isReady(within milliseconds: Int32) -> Bool
}

extension ByteSource {
    package func isReady(within milliseconds: Int32) -> Bool { true }
}

/// A file, or standard input, from its beginning to its end.
final class FileBytes: ByteSource {
    private static let chunkBytes = 256 << 10

    private let descriptor: Int32
    private(set) var bytesRead = 0

    init(_ path: String) throws(InputFault) {
        descriptor = path == "-" ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw Self.unreadable() }
    }

    deinit {
        if descriptor != STDIN_FILENO { close(descriptor) }
    }

    func next() throws(InputFault) -> [UInt8] {
        if descriptor == STDIN_FILENO, let ahead = StandardInput.take() {
            bytesRead += ahead.count
            return ahead
        }
        guard let chunk = Self.read(descriptor, most: Self.chunkBytes) else { throw Self.unreadable() }
        bytesRead += chunk.count
        return chunk
    }

    /// - Returns: no bytes at the end; nil when the call failed.
    fileprivate static func read(_ descriptor: Int32, most: Int) -> [UInt8]? {
        var count = -1
        let chunk = [UInt8](unsafeUninitializedCapacity: most) { space, filled in
            repeat {
                count = Glibc.read(descriptor, space.baseAddress, space.count)
            } while count < 0 && errno == EINTR
            filled = max(0, count)
        }
        return count < 0 ? nil : chunk
    }

    private static func unreadable() -> InputFault {
        InputFault(reason: "cannot be read: \(String(cString: strerror(errno)))", place: nil)
    }
}

/// The bytes of standard input that were read before its actual reader.
package enum StandardInput {
    private static let pending = Mutex<[UInt8]>([])

    /// Reads until there are `count` bytes, or the input ends; the next reader of standard input gets them again.
    ///
    /// Must not be called while another reader reads.
    ///
    /// - Returns: the bytes, and whether the input ends with them.
    package static func readAhead(_ limit: Int) -> (bytes: [UInt8], isAll: Bool) {
        pending.withLock { pending in
            var isAll = false
            while pending.count < limit, !isAll {
                // A read error is reported to the next reader.
                let chunk = FileBytes.read(STDIN_FILENO, most: min(limit - pending.count, 1 << 20)) ?? []
                isAll = chunk.isEmpty
                pending += chunk
            }
            return (pending, isAll)
        }
    }

    /// The bytes that were read ahead, once.
    static func take() -> [UInt8]? {
        pending.withLock { pending in
            defer { pending = [] }
            return pending.isEmpty ? nil : pending
        }
    }
}

/// LZ4 frames, as the `lz4` program unpacks them.
private final class LZ4Unpacker: Unpacker {
    let name = "LZ4"
    private(set) var isBetween = true
    private let context: OpaquePointer

    init() throws(InputFault) {
        var context: OpaquePointer?
        guard LZ4F_isError(LZ4F_createDecompressionContext(&context, UInt32(LZ4F_VERSION))) == 0, let context else {
            throw .damaged("there is no memory left to unpack the LZ4 data")
        }
        self.context = context
    }

    deinit { LZ4F_freeDecompressionContext(context) }

    func unpack(_ chunk: [UInt8], _ consumed: inout Int) throws(InputFault) -> [UInt8] {
        var hint = 0
        let piece = [UInt8](unsafeUninitializedCapacity: pieceBytes) { space, filled in
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

/// Members of gzip (RFC 1952), and zeros after the last one.
private final class GzipUnpacker: Unpacker {
    let name = "gzip"
    private(set) var isBetween = false
    /// Zeros followed a member, so no other member may follow.
    private var isPadding = false
    // zlib keeps a pointer to the stream, so it must not move.
    private let stream: UnsafeMutablePointer<z_stream>

    init() throws(InputFault) {
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

    func unpack(_ chunk: [UInt8], _ consumed: inout Int) throws(InputFault) -> [UInt8] {
        if isBetween {
            if chunk[consumed] == 0 {
                consumed += 1
                isPadding = true
                return []
            }
            guard chunk[consumed] == 0x1F, !isPadding else {
                throw .damaged("the gzip data is followed by something else, from \(chunk[consumed].asSeen) on")
            }
            inflateReset(stream)
            isBetween = false
        }
        var status = Z_OK
        let piece = [UInt8](unsafeUninitializedCapacity: pieceBytes) { space, filled in
            chunk.withUnsafeBufferPointer { chunk in
                // zlib does not write there, but does not say so.
                stream.pointee.next_in = chunk.baseAddress.map { UnsafeMutablePointer(mutating: $0 + consumed) }
                stream.pointee.avail_in = UInt32(chunk.count - consumed)
                stream.pointee.next_out = space.baseAddress
                stream.pointee.avail_out = UInt32(space.count)
                status = inflate(stream, Z_NO_FLUSH)
                consumed = chunk.count - Int(stream.pointee.avail_in)
            }
            filled = space.count - Int(stream.pointee.avail_out)
        }
        isBetween = status == Z_STREAM_END
        guard [Z_OK, Z_BUF_ERROR, Z_STREAM_END].contains(status) else {
            let reason = stream.pointee.msg.map { String(cString: $0) } ?? "zlib's error \(status)"
            throw .damaged("the gzip data is damaged (\(reason)); copy it again")
        }
        return piece
    }
}

/// A temporary file without a name: it is gone with this object, however the process ends.
package final class UnnamedFile: Sendable {
    /// There is no room for the file.
    package struct Failure: Error, CustomStringConvertible {
        package let description: String

        fileprivate init() {
            description =
                "A temporary file cannot be written in \(NSTemporaryDirectory()): \(String(cString: strerror(errno))); set "
                + "TMPDIR."
        }
    }

    private let descriptor: Int32

    package init() throws(Failure) {
        var template = Array((NSTemporaryDirectory() + "broker-XXXXXX").utf8CString)
        descriptor = mkstemp(&template)
        guard descriptor >= 0 else { throw Failure() }
        unlink(template)
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
    }

    deinit { close(descriptor) }

    /// Each time it is opened, it is read from its beginning (proc(5), /proc/pid/fd).
    package var path: String { "/proc/self/fd/\(descriptor)" }

    package func append(_ bytes: UnsafeRawBufferPointer) throws(Failure) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = write(descriptor, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw Failure() }
            rest = rest.dropFirst(count)
        }
    }
}
