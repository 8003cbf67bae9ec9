import Foundation
import Synchronization
import TestSupport
import Testing

@testable import BrokerJournal

/// A journal whose process stops at any byte, and whose files are not what they were.
@Suite(.timeLimit(.minutes(5))) struct JournalTests {
    let folder = TemporaryFolder()
    var path: String { folder.path("store.journal") }

    func entry(_ position: Int64, _ bytes: Int = 100) -> LogEntry {
        LogEntry(
            .job, position: position, id: "job-\(position)", isIDMade: position % 2 == 0,
            mayDelete: position % 3 == 0, isPrivileged: position % 5 == 0, user: 1_000,
            time: 1_234 + position,
            payload: (0..<bytes).map { UInt8(truncatingIfNeeded: $0 &+ Int(position)) })
    }

    func open(
        _ expected: JournalIdentity? = nil, applied: Int64 = 0, id: String? = nil, segmentBytes: Int = 4_096,
        system: any JournalSystem = PosixSystem()
    ) throws(JournalError) -> Journal {
        try Journal(
            JournalFolder(path: path, system: system), expected: expected, applied: applied, id: id,
            segmentBytes: segmentBytes)
    }

    func jobs(of journal: Journal, after position: Int64 = 0) throws -> [LogEntry] {
        var reader = journal.entries(after: position)
        var entries: [LogEntry] = []
        while let entry = try reader.next() { entries.append(entry) }
        return entries
    }

    /// The files, in order.
    var files: [String] {
        get throws { try FileManager.default.contentsOfDirectory(atPath: path).sorted().map { "\(path)/\($0)" } }
    }

    func fill(_ count: Int64, through segmentBytes: Int = 4_096) throws -> JournalIdentity {
        let journal = try open(segmentBytes: segmentBytes)
        for position in 1...count { try journal.append([entry(position)]) }
        return journal.identity
    }

    /// The bytes of a file whose mark says that the segment is synced up to that offset.
    func marked(_ bytes: Data, _ offset: Int, _ identity: JournalIdentity) -> Data {
        var bytes = bytes
        bytes.replaceSubrange(
            JournalSegment.markOffset..<JournalSegment.headerCount,
            with: SegmentMark(synced: offset).bytes(seed: identity.seed))
        return bytes
    }

    func refusal(_ identity: JournalIdentity?, applied: Int64 = 0, id: String? = nil) -> JournalError? {
        do {
            _ = try open(identity, applied: applied, id: id)
            return nil
        } catch {
            return error
        }
    }

    @Test func `appended entries are read again, over several segments`() throws {
        let identity = try fill(100)
        let journal = try open(identity)
        #expect(try jobs(of: journal) == (1...100).map { entry($0) })
        #expect(try jobs(of: journal, after: 97) == (98...100).map { entry($0) })
        #expect(try files.count > 3)
        #expect(journal.lastPosition == 100 && journal.pendingCount == 100)
        try journal.append([entry(101), entry(110)])
        #expect(try jobs(of: open(identity, applied: 100)).suffix(2) == [entry(101), entry(110)])
    }

    @Test func `a cancelled job is known before it is read`() throws {
        let journal = try open()
        try journal.append([entry(1), entry(2)])
        try journal.append([LogEntry(.cancellation, position: 1, time: 0)])
        #expect(try open(journal.identity).cancelled == [1])
    }

    @Test func `changes have positions among the jobs, are read like them, and keep a segment`() throws {
        let journal = try open()
        let model = LogEntry(.model, position: 2, time: 5, payload: Array("keep\n{}".utf8))
        let limits = LogEntry(.limits, position: 4, time: 9, payload: Array(repeating: 97, count: 5_000))
        try journal.append([entry(1, 10), model, entry(3, 10), limits])
        #expect(journal.lastPosition == 4)
        try journal.append([entry(5, 10)])
        #expect(try files.count == 2)
        try journal.trim(through: 3)
        #expect(try files.count == 2)
        let again = try open(journal.identity, applied: 1)
        #expect(again.pendingCount == 4 && again.pendingJobCount == 2)
        #expect(try jobs(of: again, after: 1) == [model, entry(3, 10), limits, entry(5, 10)])
        try again.trim(through: 4)
        #expect(try files.count == 1)
        #expect(refusal(journal.identity, applied: 4) == nil)
        // A position must rise, whatever has it.
        try again.append([LogEntry(.model, position: 5, time: 9)])
        #expect(refusal(journal.identity, applied: 4)?.code == .unusable)
    }

    @Test func `wherever the last record is torn, all before it are there and it goes on`() throws {
        let identity = try fill(3, through: 1 << 20)
        let file = try files[0]
        let whole = try Data(contentsOf: URL(filePath: file))
        let record = JournalRecord.headerCount + "job-3".utf8.count + 100
        let torn = marked(whole, whole.count - record, identity)
        for cut in 1...record {
            try torn.dropLast(cut).write(to: URL(filePath: file))
            let journal = try open(identity, segmentBytes: 1 << 20)
            #expect(
                journal.tail
                    == (cut == record
                        ? nil : JournalTail(file: file, offset: whole.count - record, bytes: record - cut)))
            #expect(try jobs(of: journal) == [entry(1), entry(2)], "cut by \(cut)")
            try journal.append([entry(9)])
            #expect(try jobs(of: open(identity)) == [entry(1), entry(2), entry(9)], "cut by \(cut)")
        }
    }

    @Test func `bytes of the last record that never reached the disk are no job`() throws {
        let identity = try fill(3, through: 1 << 20)
        let file = try files[0]
        var bytes = try Data(contentsOf: URL(filePath: file))
        for position in bytes.count - 60..<bytes.count { bytes[position] = 0 }
        bytes = marked(bytes, JournalSegment.headerCount, identity)
        try bytes.write(to: URL(filePath: file))
        #expect(try jobs(of: open(identity)) == [entry(1), entry(2)])
    }

    @Test func `a damaged durable entry stops the start, with its position`() throws {
        let identity = try fill(3, through: 1 << 20)
        let file = try files[0]
        var bytes = try Data(contentsOf: URL(filePath: file))
        let place = JournalSegment.headerCount + JournalRecord.headerCount + 50
        bytes[place] ^= 1
        try bytes.write(to: URL(filePath: file))
        let error = refusal(identity)
        #expect(error?.code == .unusable)
        #expect(error?.message.contains("\(file) is damaged at byte \(JournalSegment.headerCount)") == true)
    }

    @Test func `a flipped bit anywhere in a segment that has a follower stops the start`() throws {
        let identity = try fill(60)
        let file = try files[1]
        let whole = try Data(contentsOf: URL(filePath: file))
        for place in stride(from: 0, to: whole.count, by: 7) {
            var bytes = whole
            bytes[place] ^= 0x10
            try bytes.write(to: URL(filePath: file))
            #expect(refusal(identity)?.code == .unusable, "byte \(place)")
        }
    }

    @Test func `a frame that looks like a record cannot make a torn tail look damaged`() throws {
        let journal = try open(segmentBytes: 1 << 20)
        try journal.append([entry(1)])
        var fake: [UInt8] = []
        _ = JournalRecord.write(entry(7), seed: 0, after: 0, durable: 1 << 19, to: &fake)
        try journal.append([LogEntry(.job, position: 2, id: "evil", time: 0, payload: fake + fake)])
        let file = try files[0]
        let whole = try Data(contentsOf: URL(filePath: file))
        try marked(whole, JournalSegment.headerCount, journal.identity).dropLast(1).write(to: URL(filePath: file))
        #expect(try jobs(of: open(journal.identity)) == [entry(1)])
    }

    @Test func `a missing segment, another store's journal and an older copy are distinguished`() throws {
        let identity = try fill(100)
        #expect(refusal(JournalIdentity())?.message.contains("is not that of the store") == true)
        #expect(refusal(nil)?.message.contains("never fed from it") == true)
        #expect(refusal(identity, applied: 101)?.message.contains("ends at job 100") == true)
        #expect(refusal(identity, applied: 50, id: "job-51")?.message.contains("another job at 50") == true)
        #expect(refusal(identity, applied: 50, id: "job-50") == nil)
        let files = try files
        try FileManager.default.removeItem(atPath: files[1])
        #expect(refusal(identity)?.message.contains("is not whole") == true)
        try FileManager.default.removeItem(atPath: files[0])
        #expect(refusal(identity)?.message.contains("The store is older than its journal") == true)
    }

    @Test func `segments that are applied are taken away, and the last one stays`() throws {
        let identity = try fill(100)
        let journal = try open(identity)
        let count = try files.count
        try journal.trim(through: 50)
        #expect(try files.count < count)
        #expect(try jobs(of: journal, after: 50) == (51...100).map { entry($0) })
        try journal.trim(through: 100)
        #expect(try files.count == 1)
        let again = try open(identity, applied: 100)
        #expect(again.lastPosition == 100 && again.pendingCount == 0)
        #expect(again.byteCount == journal.byteCount)
    }

    @Test func `a segment that ends too early, and a record without the one before, are damage`() throws {
        let identity = try fill(100)
        let first = try files[0]
        let whole = try Data(contentsOf: URL(filePath: first))
        let record = JournalRecord.headerCount + "job-1".utf8.count + 100
        try whole.prefix(JournalSegment.headerCount + record).write(to: URL(filePath: first))
        #expect(refusal(identity)?.code == .unusable)
        var rest = whole
        rest.removeSubrange(JournalSegment.headerCount..<JournalSegment.headerCount + record)
        try rest.write(to: URL(filePath: first))
        #expect(refusal(identity)?.code == .unusable)
        try whole.write(to: URL(filePath: first))
        #expect(refusal(identity) == nil)
    }

    @Test func `an incomplete segment is created again`() throws {
        let identity = try fill(100)
        let count = try files.count
        let next = JournalSegment.path(UInt64(count + 1), in: path) + ".new"
        try Data("half".utf8).write(to: URL(filePath: next))
        let journal = try open(identity)
        #expect(try files.count == count)
        for position in Int64(200)...240 { try journal.append([entry(position)]) }
        #expect(try jobs(of: open(identity)).last == entry(240))
    }

    @Test func `a full disk takes nothing and loses nothing, and later there is room again`() throws {
        for failing in 1...3 {
            let folder = TemporaryFolder()
            let system = FailingSystem()
            let path = folder.path("store.journal")
            let open = { (identity: JournalIdentity?) in
                try Journal(
                    JournalFolder(path: path, system: system), expected: identity, applied: 0, segmentBytes: 1 << 20)
            }
            let journal = try open(nil)
            try journal.append([entry(1)])
            system.failWrites(after: failing, with: ENOSPC)
            let code = refusalCode { try journal.append([entry(2, 10_000), entry(3, 10_000)]) }
            #expect(code == .full, "\(failing)")
            system.failWrites(after: .max, with: 0)
            // Their senders got a refusal, which stays true after a crash.
            #expect(try jobs(of: open(journal.identity)) == [entry(1)])
            try journal.append([entry(4)])
            #expect(try jobs(of: open(journal.identity)) == [entry(1), entry(4)])
        }
    }

    @Test func `after the disk failed to make something durable, nothing is appended any more`() throws {
        let system = FailingSystem()
        let journal = try open(system: system)
        try journal.append([entry(1)])
        system.failSyncs(with: EIO)
        #expect(refusalCode { try journal.append([entry(2)]) } == .broken)
        system.failSyncs(with: 0)
        #expect(refusalCode { try journal.append([entry(3)]) } == .broken)
        // Whether it was durable is not known; that it is whole or not there, is.
        let found = try jobs(of: open(journal.identity))
        #expect(found == [entry(1)] || found == [entry(1), entry(2)])
    }

    @Test func `data of a failed sync is on the disk before anything depends on it`() throws {
        let disk = LossyDisk()
        var journal: Journal? = try open(segmentBytes: 1 << 20, system: disk)
        let identity = journal!.identity
        try journal!.append([entry(1)])
        disk.failsSyncs = true
        #expect(refusalCode { try journal!.append([entry(2)]) } == .broken)
        journal = nil
        disk.failsSyncs = false
        journal = try open(identity, segmentBytes: 1 << 20, system: disk)
        let found = try jobs(of: journal!)
        try journal!.append([entry(3)])
        journal = nil
        try disk.losePower(over: files)
        #expect(try jobs(of: open(identity, segmentBytes: 1 << 20)) == found + [entry(3)])
    }

    @Test func `nothing that was appended is lost with the power, and nothing is damaged by it`() throws {
        for count in Int64(1)...12 {
            try? FileManager.default.removeItem(atPath: path)
            let disk = LossyDisk()
            var journal: Journal? = try open(segmentBytes: 500, system: disk)
            let identity = journal!.identity
            for position in 1...count { try journal!.append([entry(position)]) }
            disk.failsSyncs = true
            _ = refusalCode { try journal!.append([entry(count + 1)]) }
            journal = nil
            try disk.losePower(over: files)
            #expect(try jobs(of: open(identity, segmentBytes: 500)) == (1...count).map { entry($0) }, "\(count)")
        }
    }

    @Test func `applied segments of which a loss of power has left some are no gap`() throws {
        let identity = try fill(100)
        let files = try files
        try FileManager.default.removeItem(atPath: files[1])
        let applied = try jobs(of: open(identity, applied: 100)).count
        #expect(applied == 0 || applied < 100)
        #expect(try !self.files.contains(files[0]))
        let journal = try open(identity, applied: 100)
        #expect(journal.pendingCount == 0 && journal.lastPosition == 100)
    }

    func refusalCode(_ body: () throws -> Void) -> JournalError.Code? {
        do {
            try body()
            return nil
        } catch {
            return (error as? JournalError)?.code
        }
    }
}

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

/// A disk under a machine whose power is cut: of what was written and not synced nothing is left. A sync that fails does as
/// Linux does: what it could not write is taken for written by all later ones.
final class LossyDisk: JournalSystem {
    private struct File {
        var durable: [UInt8] = []
        var unwritten: [Range<Int>] = []
    }

    private struct State {
        /// By inode.
        var files: [UInt64: File] = [:]
        var failsSyncs = false
    }

    private let state = Mutex(State())

    var failsSyncs: Bool {
        get { state.withLock { $0.failsSyncs } }
        set { state.withLock { $0.failsSyncs = newValue } }
    }

    func write(_ file: Int32, _ bytes: UnsafeRawBufferPointer, _ offset: Int) -> Int {
        let count = pwrite(file, bytes.baseAddress, bytes.count, off_t(offset))
        if count > 0 {
            let inode = status(of: file).st_ino
            state.withLock { $0.files[UInt64(inode), default: File()].unwritten.append(offset..<offset + count) }
        }
        return count
    }

    func truncate(_ file: Int32, _ size: Int) -> Int32 { ftruncate(file, off_t(size)) }

    func sync(_ file: Int32) -> Int32 {
        let status = status(of: file)
        let isFile = status.st_mode & S_IFMT == S_IFREG
        return state.withLock { state in
            var known = state.files[UInt64(status.st_ino)] ?? File()
            defer { state.files[UInt64(status.st_ino)] = isFile ? known : nil }
            let unwritten = known.unwritten
            known.unwritten = []
            guard !state.failsSyncs else {
                errno = EIO
                return -1
            }
            let size = Int(status.st_size)
            let missing = max(0, size - known.durable.count)
            known.durable = known.durable.prefix(size) + [UInt8](repeating: 0, count: missing)
            for range in unwritten where isFile && range.upperBound <= size {
                known.durable.withUnsafeMutableBytes { bytes in
                    _ = pread(file, bytes.baseAddress! + range.lowerBound, range.count, off_t(range.lowerBound))
                }
            }
            return 0
        }
    }

    /// The remaining contents of the files.
    func losePower(over files: [String]) throws {
        for path in files {
            var status = stat()
            stat(path, &status)
            let durable = state.withLock { $0.files[UInt64(status.st_ino)]?.durable ?? [] }
            try Data(durable).write(to: URL(filePath: path), options: [])
        }
    }

    private func status(of file: Int32) -> stat {
        var status = stat()
        fstat(file, &status)
        return status
    }
}
