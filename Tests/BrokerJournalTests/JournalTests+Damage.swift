import Foundation
import TestSupport
import Testing

@testable import BrokerJournal

/// Files of a journal that are not what they were: damaged, missing, of another format, or no files.
extension JournalTests {
    @Test func `zeroes, garbage and a lost end where the journal was durable stop the start, and nothing is cut`()
        throws
    {
        var generator = SeededGenerator()
        for start in [0.1, 0.5, 0.9] {
            let range = { (bytes: Data) in Int(Double(bytes.count) * start)..<bytes.count }
            try expectRefusal(of: { $0.resetBytes(in: range($0)) }, "zeroes from \(start)")
            try expectRefusal(
                of: { bytes in for place in range(bytes) { bytes[place] = .random(in: 0...255, using: &generator) } },
                "garbage from \(start)")
            try expectRefusal(of: { $0.removeSubrange(range($0)) }, "cut off from \(start)")
        }
        let record = JournalRecord.headerCount + "job-30".utf8.count + 100
        for cut in 1...record { try expectRefusal(of: { $0.removeLast(cut) }, "shorter by \(cut)") }
        for count in [0, 10, JournalSegment.markOffset, JournalSegment.headerCount] {
            try expectRefusal(of: { $0 = $0.prefix(count) }, "\(count) bytes left")
        }
    }

    @Test func `a flipped bit in a record that was durable stops the start, also in the last one`() throws {
        let count = JournalRecord.headerCount + "job-30".utf8.count + 100
        for place in 1...count { try expectRefusal(of: { $0[$0.count - place] ^= 1 }, "\(place) from the end") }
    }

    @Test func `damage before a record that was written later stops the start, whatever length is recorded`() throws {
        let identity = try fill(3, through: 1 << 20)
        let file = try files[0]
        let whole = marked(try Data(contentsOf: URL(filePath: file)), JournalSegment.headerCount, identity)
        let count = JournalRecord.headerCount + "job-1".utf8.count + 100
        for start in [JournalSegment.headerCount, JournalSegment.headerCount + count] {
            var bytes = whole
            bytes.resetBytes(in: start..<start + count)
            try bytes.write(to: URL(filePath: file))
            #expect(refusal(identity)?.message.contains("\(file) is damaged at byte \(start)") == true)
            #expect(try Data(contentsOf: URL(filePath: file)) == bytes)
        }
    }

    @Test func `the records that a start finds are durable from then on`() throws {
        let identity = try fill(3, through: 1 << 20)
        let file = try files[0]
        try marked(try Data(contentsOf: URL(filePath: file)), JournalSegment.headerCount, identity)
            .write(to: URL(filePath: file))
        #expect(try jobs(of: open(identity, segmentBytes: 1 << 20)).count == 3)
        var bytes = try Data(contentsOf: URL(filePath: file))
        bytes[bytes.count - 1] ^= 1
        try bytes.write(to: URL(filePath: file))
        #expect(refusal(identity)?.code == .unusable)
    }

    @Test func `the last segment that is missing stops the start`() throws {
        let identity = try fill(100)
        try FileManager.default.removeItem(atPath: files.last!)
        #expect(refusal(identity)?.message.contains("is missing") == true)
    }

    @Test func `a record of an unknown kind or with unknown flags stops the start`() throws {
        for (offset, value) in [(16, UInt8(9)), (17, UInt8(8))] {
            try? FileManager.default.removeItem(atPath: path)
            let identity = try fill(3, through: 1 << 20)
            let file = try files[0]
            var bytes = Array(try Data(contentsOf: URL(filePath: file)))
            let start = bytes.count - (JournalRecord.headerCount + "job-3".utf8.count + 100)
            bytes[start + offset] = value
            let checksum = bytes[start + 12..<start + JournalRecord.headerCount].withUnsafeBytes {
                JournalRecord.checksum($0, seed: identity.seed)
            }
            withUnsafeBytes(of: checksum.littleEndian) { bytes.replaceSubrange(start + 8..<start + 12, with: $0) }
            // Also where the segment is not known to be durable.
            try marked(Data(bytes), JournalSegment.headerCount, identity).write(to: URL(filePath: file))
            let error = refusal(identity)
            #expect(error?.code == .unusable)
            #expect(error?.message.contains("holds at byte \(start) a record of kind") == true)
            #expect(try Data(contentsOf: URL(filePath: file)).count == bytes.count)
        }
    }

    @Test func `a segment of a later format stops the start, and names the format`() throws {
        let journal = try open()
        let header = JournalSegment.header(1, journal.identity, before: 0, format: 3)
        try Data(header).write(to: URL(filePath: files[0]))
        #expect(refusal(journal.identity)?.message.contains("has format 3") == true)
    }

    @Test func `a segment that is no regular file stops the start at once`() throws {
        let identity = try fill(3)
        let file = try files[0]
        let moved = folder.path("moved")
        try FileManager.default.moveItem(atPath: file, toPath: moved)
        let makes: [(String, () -> Int32)] = [
            ("a FIFO", { mkfifo(file, 0o600) }), ("a folder", { mkdir(file, 0o700) }),
            ("a symbolic link", { symlink(moved, file) }), ("a link to a device", { symlink("/dev/zero", file) }),
        ]
        for (what, make) in makes {
            #expect(make() == 0)
            let error = refusal(identity)
            #expect(error?.code == .unusable, "\(what)")
            #expect(error?.message.contains("\(file) is no regular file") == true, "\(what)")
            try FileManager.default.removeItem(atPath: file)
        }
    }

    @Test(arguments: ["deleted", "replaced", "folder deleted", "folder moved"])
    func `nothing is appended to a journal whose file is not where it was`(change: String) throws {
        let journal = try open()
        try journal.append([entry(1)])
        let file = try files[0]
        switch change {
        case "deleted": try FileManager.default.removeItem(atPath: file)
        case "replaced":
            let bytes = try Data(contentsOf: URL(filePath: file))
            try FileManager.default.removeItem(atPath: file)
            try bytes.write(to: URL(filePath: file))
        case "folder deleted": try FileManager.default.removeItem(atPath: path)
        default: try FileManager.default.moveItem(atPath: path, toPath: folder.path("elsewhere"))
        }
        #expect(refusalCode { try journal.append([entry(2)]) } == .lost)
        #expect(refusalCode { try journal.append([entry(3)]) } == .lost)
    }

    /// Changes a file that is a journal with 30 durable jobs, and expects that the journal is refused and the file untouched.
    private func expectRefusal(
        of change: (inout Data) -> Void, _ what: String, location: SourceLocation = #_sourceLocation
    ) throws {
        try? FileManager.default.removeItem(atPath: path)
        let identity = try fill(30, through: 1 << 20)
        let file = try files[0]
        var bytes = try Data(contentsOf: URL(filePath: file))
        change(&bytes)
        try bytes.write(to: URL(filePath: file))
        let error = refusal(identity)
        #expect(error?.code == .unusable, "\(what)", sourceLocation: location)
        #expect(
            error?.message.contains("\(file) is damaged at byte") == true, "\(what): \(String(describing: error))",
            sourceLocation: location)
        #expect(try Data(contentsOf: URL(filePath: file)) == bytes, "\(what)", sourceLocation: location)
    }
}
