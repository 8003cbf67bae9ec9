/// The contents of a file: unpacked, when its first bytes are those of gzip or lz4; otherwise unchanged.
final class UnpackedBytes: ByteSource {
    private let packed: any ByteSource
    /// Nil until the first bytes have been read.
    private var unpacked: (any ByteSource)?
    private let maximumBytes: Int
    private var count = 0

    /// - Parameter maximumBytes: more unpacked bytes are a fault.
    init(_ packed: any ByteSource, maximumBytes: Int = .max) {
        self.packed = packed
        self.maximumBytes = maximumBytes
    }

    var bytesRead: Int { packed.bytesRead }

    func next() throws(ByteFault) -> [UInt8] {
        let source = if let unpacked { unpacked } else { try recognised() }
        unpacked = source
        let bytes = try source.next()
        count += bytes.count
        guard count <= maximumBytes else {
            throw .damaged("there are more than \(maximumBytes) bytes, unpacked; --max-bytes allows more")
        }
        return bytes
    }

    private func recognised() throws(ByteFault) -> any ByteSource {
        var beginning: [UInt8] = []
        // A pipe may return single bytes.
        while beginning.count < Packing.longestMark, Packing.all.contains(where: { $0.mayBegin(with: beginning) }) {
            let chunk = try packed.next()
            if chunk.isEmpty { break }
            beginning += chunk
        }
        let source = BegunBytes(beginning, then: packed)
        guard let packing = Packing.all.first(where: { beginning.starts(with: $0.mark) }) else { return source }
        switch packing.kind {
        case .gzip: return try GzipBytes(source)
        case .lz4: return try LZ4Bytes(source)
        case .unread(let remedy): throw .damaged("the input is packed by \(packing.name); \(remedy)")
        }
    }
}

/// A compression format, and its first bytes.
private struct Packing {
    enum Kind {
        case gzip, lz4
        /// A format that is reported by name, with the remedy.
        case unread(String)
    }

    let name: String
    let mark: [UInt8]
    let kind: Kind

    func mayBegin(with bytes: [UInt8]) -> Bool { bytes.count < mark.count && mark.starts(with: bytes) }

    static let longestMark = 10

    /// No text begins with any of these; bzip2's bytes are those of its default level.
    static let all = [
        Packing(name: "gzip", mark: [0x1F, 0x8B], kind: .gzip),
        Packing(name: "lz4", mark: [0x04, 0x22, 0x4D, 0x18], kind: .lz4),
        Packing(
            name: "lz4 in its legacy format", mark: [0x02, 0x21, 0x4C, 0x18],
            kind: .unread("unpack it first: lz4 -dc FILE | broker …")),
        Packing(
            name: "zstd", mark: [0x28, 0xB5, 0x2F, 0xFD], kind: .unread("unpack it first: zstd -dc FILE | broker …")),
        Packing(
            name: "xz", mark: [0xFD, 0x37, 0x7A, 0x58, 0x5A, 0x00],
            kind: .unread("unpack it first: xz -dc FILE | broker …")),
        Packing(
            name: "bzip2", mark: Array("BZh91AY&SY".utf8), kind: .unread("unpack it first: bzip2 -dc FILE | broker …")),
        Packing(
            name: "zip", mark: Array("PK".utf8) + [0x03, 0x04],
            kind: .unread("unpack it first: unzip -p FILE | broker … (a spreadsheet? save it as CSV)")),
    ]
}

/// The bytes that were examined already, and then the others.
private final class BegunBytes: ByteSource {
    private var beginning: [UInt8]
    private let rest: any ByteSource

    init(_ beginning: [UInt8], then rest: any ByteSource) {
        self.beginning = beginning
        self.rest = rest
    }

    var bytesRead: Int { rest.bytesRead }

    func next() throws(ByteFault) -> [UInt8] {
        guard beginning.isEmpty else {
            defer { beginning = [] }
            return beginning
        }
        return try rest.next()
    }
}
