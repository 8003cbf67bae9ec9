import CLZ4
import CZlib
import CZstd
import Foundation
import Glibc
import Synchronization

/// The contents of a file: unpacked, when its first bytes are those of gzip, lz4 or zstd; otherwise unchanged.
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
        unpacker != nil && consumed < chunk.count || packed.isReady(within: milliseconds)
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
        case .zstd: unpacker = try ZstdUnpacker()
        case .unread(let command):
            throw .damaged("the input is \(packing.name), which is not read; convert it: \(command)")
        }
    }
}

/// Unpacks parts one after the other: members of gzip, or frames of LZ4 or Zstandard.
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
        case gzip, lz4, zstd
        /// A format that is reported by name, with the command that unpacks it.
        case unread(String)
    }

    let name: String
    let mark: [UInt8]
    let kind: Kind

    func mayBegin(with bytes: [UInt8]) -> Bool { bytes.count < mark.count && mark.starts(with: bytes) }

    /// No text begins with any of these; bzip2's bytes are those of its default level, and Parquet's those of a first page.
    static let all = [
        Packing(name: "gzip", mark: [0x1F, 0x8B], kind: .gzip),
        Packing(name: "lz4", mark: [0x04, 0x22, 0x4D, 0x18], kind: .lz4),
        Packing(
            name: "lz4 in its legacy format", mark: [0x02, 0x21, 0x4C, 0x18], kind: .unread("lz4 -dc FILE | broker …")),
        Packing(name: "zstd", mark: [0x28, 0xB5, 0x2F, 0xFD], kind: .zstd),
        Packing(name: "xz", mark: [0xFD, 0x37, 0x7A, 0x58, 0x5A, 0x00], kind: .unread("xz -dc FILE | broker …")),
        Packing(name: "bzip2", mark: Array("BZh91AY&SY".utf8), kind: .unread("bzip2 -dc FILE | broker …")),
        Packing(
            name: "zip, as a spreadsheet (xlsx, ods) is, too", mark: Array("PK".utf8) + [0x03, 0x04],
            kind: .unread("unzip -p FILE | broker …, or of a spreadsheet: xlsx2csv FILE | broker …")),
        Packing(
            name: "an old spreadsheet (xls)", mark: [0xD0, 0xCF, 0x11, 0xE0, 0xA1, 0xB1, 0x1A, 0xE1],
            kind: .unread("in2csv FILE | broker …")),
        Packing(
            name: "Parquet", mark: Array("PAR1".utf8) + [0x15],
            kind: .unread("duckdb -c \"COPY (FROM 'FILE') TO '/dev/stdout' (FORMAT json)\" | broker …")),
        Packing(name: "Avro", mark: Array("Obj".utf8) + [0x01], kind: .unread("fastavro FILE | broker …")),
        Packing(
            name: "a SQLite database", mark: Array("SQLite format 3".utf8) + [0],
            kind: .unread("broker model import FILE reads its model, sqlite3 -json FILE 'SELECT …' | broker … a table")),
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

/// A file, or a pipe such as standard input, from its beginning to its end.
final class FileBytes: ByteSource {
    private static let chunkBytes = 256 << 10

    private let descriptor: Int32
    /// Nil for a file.
    private let pipe: String?
    private(set) var bytesRead = 0

    init(_ path: String) throws(InputFault) {
        pipe = PipeInput.isPipe(path) ? path : nil
        descriptor = pipe == nil ? open(path, O_RDONLY | O_CLOEXEC) : PipeInput.descriptor(path)
        guard descriptor >= 0 else { throw Self.unreadable() }
    }

    deinit {
        if pipe == nil { close(descriptor) }
    }

    func next() throws(InputFault) -> [UInt8] {
        if let pipe, let ahead = PipeInput.take(pipe) {
            bytesRead += ahead.count
            return ahead
        }
        guard let chunk = Self.read(descriptor, most: Self.chunkBytes) else { throw Self.unreadable() }
        bytesRead += chunk.count
        return chunk
    }

    func isReady(within milliseconds: Int32) -> Bool {
        guard let pipe, let hasWaited = PipeInput.takeWait(pipe) else { return true }
        return Self.poll(descriptor, hasWaited ? 0 : milliseconds)
    }

    fileprivate static func poll(_ descriptor: Int32, _ milliseconds: Int32) -> Bool {
        var poll = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        // An interrupted call counts as bytes; the next read waits for them.
        return Glibc.poll(&poll, 1, milliseconds) != 0
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

/// Inputs that can be read once, such as standard input and `<(…)` of a shell: the bytes that were read before the
/// actual reader, which gets them again.
package enum PipeInput {
    private struct Pipe {
        let descriptor: Int32
        var pending: [UInt8] = []
        var isOver = false
        /// Nothing came after them for as long as the reader was to wait.
        var hasWaited = false
    }

    private static let pipes = Mutex<[String: Pipe]>([:])

    package static func isPipe(_ path: String) -> Bool {
        var status = stat()
        if path == "-" { return true }
        guard stat(path, &status) == 0 else { return false }
        return [S_IFIFO, S_IFSOCK, S_IFCHR].contains(status.st_mode & S_IFMT)
    }

    /// Opens it once. Less than 0 when it cannot be opened.
    fileprivate static func descriptor(_ path: String) -> Int32 {
        if let known = pipes.withLock({ $0[path]?.descriptor }) { return known }
        // A named pipe waits here for its writer.
        let descriptor = path == "-" ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)
        if descriptor >= 0 { pipes.withLock { $0[path] = Pipe(descriptor: descriptor) } }
        return descriptor
    }

    /// Reads until there are `limit` bytes, the input ends, or no bytes come for a while; the next reader gets them again.
    ///
    /// Must not be called while another reader reads.
    ///
    /// - Parameters:
    ///   - patience: milliseconds without bytes, once there are some; less than 0 waits for all.
    ///   - waits: waits for bytes even if there are some.
    /// - Returns: the bytes, and whether the input ends with them.
    package static func readAhead(
        _ path: String, _ limit: Int, patience: Int32 = -1, waits: Bool = false
    ) -> (bytes: [UInt8], isAll: Bool) {
        let descriptor = descriptor(path)
        guard descriptor >= 0, var pipe = pipes.withLock({ $0[path] }) else { return ([], true) }
        let known = pipe.pending.count
        while pipe.pending.count < limit, !pipe.isOver {
            let mustWait = pipe.pending.isEmpty || waits && pipe.pending.count == known
            if !mustWait, !FileBytes.poll(descriptor, patience) {
                pipe.hasWaited = pipe.hasWaited || patience > 0
                break
            }
            pipe.hasWaited = false
            // A read error is reported to the next reader.
            let chunk = FileBytes.read(descriptor, most: min(limit - pipe.pending.count, 1 << 20)) ?? []
            pipe.isOver = chunk.isEmpty
            pipe.pending += chunk
        }
        pipes.withLock { $0[path] = pipe }
        return (pipe.pending, pipe.isOver)
    }

    /// Whether the time without bytes has passed already, once; nil where the next read need not wait.
    fileprivate static func takeWait(_ path: String) -> Bool? {
        pipes.withLock { pipes in
            guard let pipe = pipes[path] else { return false }
            guard !pipe.isOver, pipe.pending.isEmpty else { return nil }
            pipes[path]?.hasWaited = false
            return pipe.hasWaited
        }
    }

    /// The bytes that were read ahead, once.
    fileprivate static func take(_ path: String) -> [UInt8]? {
        pipes.withLock { pipes in
            defer { pipes[path]?.pending = [] }
            return pipes[path].flatMap { $0.pending.isEmpty ? nil : $0.pending }
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

/// Frames of Zstandard (RFC 8878), as the `zstd` program unpacks them.
private final class ZstdUnpacker: Unpacker {
    let name = "zstd"
    private(set) var isBetween = true
    private let stream: UnsafeMutableRawPointer
    private let functions: broker_zstd

    init() throws(InputFault) {
        var functions = broker_zstd()
        guard broker_zstd_load(&functions) != 0 else {
            throw .damaged("there is no libzstd.so.1 to unpack the zstd data; install libzstd1, or unpack it before")
        }
        guard let stream = functions.make() else {
            throw .damaged("there is no memory left to unpack the zstd data")
        }
        (self.functions, self.stream) = (functions, stream)
    }

    deinit { _ = functions.release(stream) }

    func unpack(_ chunk: [UInt8], _ consumed: inout Int) throws(InputFault) -> [UInt8] {
        var hint = 0
        let piece = [UInt8](unsafeUninitializedCapacity: pieceBytes) { space, filled in
            chunk.withUnsafeBytes { chunk in
                var input = broker_zstd_input(start: chunk.baseAddress, size: chunk.count, position: consumed)
                var output = broker_zstd_output(start: space.baseAddress, size: space.count, position: 0)
                hint = functions.unpack(stream, &output, &input)
                (consumed, filled) = (input.position, output.position)
            }
        }
        guard functions.is_error(hint) == 0 else {
            let reason = functions.error_name(hint).map { String(cString: $0) } ?? "\(hint)"
            throw .damaged("the zstd data is damaged or followed by something else (\(reason)); copy it again")
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
