import CLZ4
import CZlib
import Foundation
import Testing

@testable import BrokerInput

@Suite(.timeLimit(.minutes(5))) struct UnpackingTests {
    /// As gzip packs it.
    private static func gzip(_ bytes: [UInt8]) throws -> [UInt8] {
        let path = NSTemporaryDirectory() + "broker-\(UUID().uuidString).gz"
        defer { unlink(path) }
        let file = try #require(gzopen(path, "wb"))
        let written = bytes.isEmpty ? 0 : gzwrite(file, bytes, UInt32(bytes.count))
        try #require(Int(written) == bytes.count && gzclose(file) == Z_OK)
        return [UInt8](try Data(contentsOf: URL(fileURLWithPath: path)))
    }

    /// As lz4 packs it, with a checksum.
    private static func lz4(_ bytes: [UInt8]) -> [UInt8] {
        var preferences = LZ4F_preferences_t()
        preferences.frameInfo.contentChecksumFlag = LZ4F_contentChecksumEnabled
        var packed = [UInt8](repeating: 0, count: LZ4F_compressFrameBound(bytes.count, &preferences))
        let count = LZ4F_compressFrame(&packed, packed.count, bytes, bytes.count, &preferences)
        return Array(packed.prefix(count))
    }

    private static func pack(_ bytes: [UInt8], _ name: String) throws -> [UInt8] {
        name == "gzip" ? try gzip(bytes) : lz4(bytes)
    }

    private func read(_ bytes: [UInt8], _ format: RecordFormat = .csv, pieces size: Int = 1 << 16) -> Reading {
        Reading(format, UnpackedBytes(PiecedBytes(bytes, size)))
    }

    private let table = Array(("id,name\n" + (1...5000).map { "\($0),n\($0)\n" }.joined()).utf8)

    @Test(arguments: ["gzip", "lz4"]) func `packed bytes are known by their first ones, in pieces of any size`(
        name: String
    ) throws {
        let plain = read(table)
        #expect(plain.records.count == 5000 && plain.fault == nil)
        let packed = try Self.pack(table, name)
        for size in [1, 2, 3, 1000, 1 << 20] {
            let unpacked = read(packed, pieces: size)
            #expect(unpacked.records == plain.records && unpacked.places == plain.places && unpacked.fault == nil)
        }
    }

    @Test(arguments: ["gzip", "lz4"]) func `a file packed in parts is read as one`(name: String) throws {
        let parts =
            try Self.pack(Array(table[..<1000]), name) + Self.pack([], name) + Self.pack(Array(table[1000...]), name)
        for size in [1, 1 << 20] {
            let reading = read(parts, pieces: size)
            #expect(reading.records.count == 5000 && reading.fault == nil, "\(reading.faultText)")
        }
    }

    @Test(arguments: ["gzip", "lz4"]) func `a truncated file is reported, after the complete records before its end`(
        name: String
    ) throws {
        let packed = try Self.pack(table, name)
        for count in [7, packed.count / 2, packed.count - 5, packed.count - 1] {
            let reading = read(Array(packed[..<count]))
            #expect(reading.faultText.contains("data ends in the middle (\(count) bytes of the file were read)"))
            // A last line without its end may be a half one.
            #expect(reading.records.count < 5000 || count > packed.count / 2)
            #expect(reading.fault?.place?.line == max(1, reading.records.count + 2) || reading.records.isEmpty)
        }
    }

    @Test(arguments: ["gzip", "lz4"]) func `a changed byte is reported, wherever it is`(name: String) throws {
        let packed = try Self.pack(table, name)
        for index in stride(from: 20, to: packed.count, by: packed.count / 37) {
            var damaged = packed
            damaged[index] ^= 0x55
            let reading = read(damaged)
            #expect(reading.fault != nil, "\(index)")
        }
    }

    @Test func `after gzip there may be zeros, and nothing else`() throws {
        let packed = try Self.gzip(table)
        #expect(read(packed + [0, 0, 0]).fault == nil)
        let reading = read(packed + Array("x,y\n".utf8))
        #expect(reading.records.count == 5000)
        #expect(reading.faultText.contains("the gzip data is followed by something else, from 'x' on"))
        #expect(read(packed + [0] + packed).fault != nil)
        #expect(
            read(Self.lz4(table) + Array("id,name\n1,2\n".utf8)).faultText.contains(
                "damaged or followed by something else"))
    }

    @Test(
        arguments: [
            ([0x28, 0xB5, 0x2F, 0xFD, 0x00], "zstd -dc"), ([0xFD, 0x37, 0x7A, 0x58, 0x5A, 0x00], "xz -dc"),
            (Array("BZh91AY&SY".utf8), "bzip2 -dc"), ([0x50, 0x4B, 0x03, 0x04], "save it as CSV"),
            ([0x02, 0x21, 0x4C, 0x18, 0x00], "lz4 -dc"),
        ] as [([UInt8], String)])
    func `other compression formats are reported by name, with the remedy`(bytes: [UInt8], message: String) {
        for size in [1, 100] {
            let reading = read(bytes, .json, pieces: size)
            #expect(reading.faultText.contains(message), "\(reading.faultText)")
        }
    }

    @Test func `gigabytes of zeros in a small file are a fault at the first one`() throws {
        // Packed once more: the packer makes the same bytes of the same zeros again and again.
        let member = try Self.gzip([UInt8](repeating: 0, count: 64 << 20))
        var bomb: [UInt8] = []
        for _ in 0..<160 { bomb += member }
        for format in RecordFormat.allCases {
            let source = UnpackedBytes(PiecedBytes(bomb, 1 << 16))
            let reading = Reading(format, source)
            #expect(reading.faultText.contains("line 1, column 1"), "\(reading.faultText)")
            #expect(source.bytesRead <= 1 << 18)
        }
    }

    @Test func `megabytes of empty lines in a small file are read without holding them`() throws {
        let member = try Self.gzip([UInt8](repeating: UInt8(ascii: "\n"), count: 4 << 20))
        let bomb = try Self.gzip(Array("id\n".utf8)) + member
        let reading = read(bomb)
        #expect(reading.records.isEmpty && reading.fault == nil, "\(reading.faultText)")
    }
}
