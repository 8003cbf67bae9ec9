import Glibc
import Testing

@testable import Volume

/// The model of durability, without a mount.
@Suite(.timeLimit(.minutes(5))) struct VolumeTests {
    @Test func `Synced content survives, and content written later does not`() throws {
        let volume = Volume.forgetting()
        let file = try volume.make("a")
        try volume.put("synced", in: file)
        try volume.sync(file)
        try volume.put("LOST", in: file)
        try volume.put("and longer", in: file, at: 10_000)
        volume.cut()
        #expect(try volume.text("a") == "synced")
    }

    @Test func `A file that was never synced is empty when another sync committed its name`() throws {
        let volume = Volume.forgetting()
        try volume.put("content", in: try volume.make("a"))
        try volume.sync(try volume.make("b"))
        volume.cut()
        #expect(try volume.text("a") == "")
    }

    @Test func `A name that no sync committed is absent`() throws {
        let volume = Volume.forgetting()
        let file = try volume.make("a")
        try volume.sync(file)
        _ = try volume.make("b")
        try volume.remove("a".bytes, in: Volume.rootNumber, isDirectory: false)
        volume.cut()
        #expect(try volume.names() == ["a"])
    }

    @Test func `A renamed file that was not synced replaces the old content by nothing`() throws {
        let volume = Volume.forgetting()
        let old = try volume.make("target")
        try volume.put("old", in: old)
        try volume.sync(old)
        try volume.put("new", in: try volume.make("draft"))
        try volume.rename("draft".bytes, in: 1, to: "target".bytes, in: 1, mayReplace: true)
        try volume.sync(try volume.make("other"))
        volume.cut()
        #expect(try volume.text("target") == "")
        #expect(try volume.names() == ["other", "target"])
    }

    @Test func `A renamed file whose name was not committed leaves the old content`() throws {
        let volume = Volume.forgetting()
        let old = try volume.make("target")
        try volume.put("old", in: old)
        try volume.sync(old)
        try volume.put("new", in: try volume.make("draft"))
        try volume.rename("draft".bytes, in: 1, to: "target".bytes, in: 1, mayReplace: true)
        volume.cut()
        #expect(try volume.text("target") == "old")
        #expect(try volume.names() == ["target"])
    }

    @Test func `The sync of a directory commits names and no content`() throws {
        let volume = Volume.forgetting()
        try volume.put("content", in: try volume.make("a"))
        volume.commit()
        volume.cut()
        #expect(try volume.text("a") == "")
    }

    @Test func `A committed truncation applies to synced content, and an uncommitted one does not`() throws {
        for isCommitted in [true, false] {
            let volume = Volume.forgetting()
            let file = try volume.make("a")
            try volume.put(String(repeating: "x", count: 9000), in: file)
            try volume.sync(file)
            _ = try volume.change(file, mode: nil, owner: nil, group: nil, size: 5000)
            try volume.put("new", in: file)
            if isCommitted { volume.commit() }
            volume.cut()
            #expect(try volume.text("a") == String(repeating: "x", count: isCommitted ? 5000 : 9000))
        }
    }

    @Test func `The names after a cut are a prefix of the operations`() throws {
        var counts: Set<Int> = []
        for seed in 0..<200 as Range<UInt64> {
            let volume = Volume(size: 1 << 20, seed: seed, survival: .some)
            try volume.sync(try volume.make("0"))
            for number in 1...9 { try volume.renameOnly(to: "\(number)") }
            volume.cut()
            let names = try volume.names()
            try #require(names.count == 1)
            counts.insert(Int(names[0]) ?? -1)
        }
        #expect(counts == Set(0...9))
    }

    @Test func `Any pages of unsynced writes may survive, whole ones`() throws {
        var kinds: Set<String> = []
        for seed in 0..<1000 as Range<UInt64> {
            let volume = Volume(size: 1 << 20, seed: seed, survival: .some)
            let file = try volume.make("a")
            try volume.put(String(repeating: "o", count: 3 * 4096), in: file)
            try volume.sync(file)
            try volume.put(String(repeating: "n", count: 4 * 4096 + 100), in: file)
            volume.cut()
            let content = try volume.text("a")
            #expect([3 * 4096, 4 * 4096 + 100].contains(content.utf8.count))
            let pages = Array(content.utf8).chunks(of: 4096)
            #expect(pages.allSatisfy { page in page.allSatisfy { $0 == page.first } })
            kinds.insert(String(decoding: pages.map { $0.first == 0 ? 48 : $0.first ?? 63 }, as: UTF8.self))
        }
        // The first pages are old or new; those after the old size are zeros, new or absent.
        #expect(kinds.isSuperset(of: ["ooo", "nnn", "ono", "non", "nnnnn", "ooo00", "ooon0", "ooo0n", "nonn0"]))
    }

    @Test func `The same seed leaves the same state`() throws {
        func state(_ seed: UInt64) throws -> [String] {
            let volume = Volume(size: 1 << 20, seed: seed, survival: .some)
            for number in 0..<20 {
                try volume.put(String(repeating: "\(number % 10)", count: 9000), in: try volume.make("\(number)"))
                if number == 10 { volume.commit() }
            }
            volume.cut()
            return try volume.names().map { try $0 + volume.text($0) }
        }
        #expect(try state(5) == state(5))
        #expect(try Set((0..<10).map(state)).count > 5)
    }

    @Test func `An unlinked file lives until it is forgotten, and returns when the unlinking is lost`() throws {
        let volume = Volume.forgetting()
        let file = try volume.make("a")
        try volume.put("synced", in: file)
        try volume.sync(file)
        volume.retain(try volume.inode(file))
        try volume.remove("a".bytes, in: 1, isDirectory: false)
        #expect(try volume.content(file) == "synced")
        volume.forget(file, count: 1)
        #expect(volume.usedPages == 0)
        volume.cut()
        #expect(try volume.text("a") == "synced")
        #expect(volume.usedPages == 1)
    }

    @Test func `A full disk takes what fits and then refuses`() throws {
        let volume = Volume(size: 2 * 4096, seed: 0, survival: .none)
        let file = try volume.make("a")
        let bytes = [UInt8](repeating: 1, count: 3 * 4096)
        let count = try bytes.withUnsafeBytes { try volume.write($0, to: file, at: 0, isSynchronous: false) }
        #expect(count == 2 * 4096)
        #expect(throws: FileError(ENOSPC)) { try volume.put("x", in: file, at: 2 * 4096) }
        #expect(throws: FileError(ENOSPC)) { try volume.allocate(file, 0..<3 * 4096, isGrowing: false) }
        try volume.put("overwritten", in: file)
        _ = try volume.change(file, mode: nil, owner: nil, group: nil, size: 0)
        try volume.put("x", in: file, at: 2 * 4096)
    }

    /// Random operations, with a copy of the contents at each sync of all files.
    @Test(arguments: 0..<50 as Range<UInt64>) func `A cut reverts to the last sync of all files`(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let volume = Volume.forgetting()
        var synced: [String: String] = [:]
        for _ in 0..<400 {
            let name = "\(Int.random(in: 0..<5, using: &generator))"
            let file = try volume.lookup(name.bytes, in: 1)?.number ?? volume.make(name)
            switch Int.random(in: 0..<8, using: &generator) {
            case 0: try volume.remove(name.bytes, in: 1, isDirectory: false)
            case 1: try volume.rename(name.bytes, in: 1, to: "other".bytes, in: 1, mayReplace: true)
            case 2:
                let size = Int.random(in: 0..<20_000, using: &generator)
                _ = try volume.change(file, mode: nil, owner: nil, group: nil, size: size)
            case 3:
                for name in try volume.names() { try volume.sync(try volume.number(name)) }
                synced = try volume.contents()
            case 4 where Bool.random(using: &generator):
                volume.cut()
                #expect(try volume.contents() == synced)
            default:
                let text = String(repeating: name, count: Int.random(in: 1..<9000, using: &generator))
                try volume.put(text, in: file, at: Int.random(in: 0..<12_000, using: &generator))
            }
            // Without a file to sync, names are committed alone.
            if try volume.names().isEmpty {
                volume.commit()
                synced = [:]
            }
        }
    }
}

extension Volume {
    /// A disk whose cuts leave nothing that was not synced.
    fileprivate static func forgetting() -> Volume { Volume(size: 1 << 20, seed: 0, survival: .none) }

    fileprivate func make(_ name: String) throws -> UInt64 {
        try create(name.bytes, in: 1, Attributes(mode: S_IFREG | 0o644, owner: 0, group: 0)).number
    }

    fileprivate func renameOnly(to name: String) throws {
        try rename(try names()[0].bytes, in: 1, to: name.bytes, in: 1, mayReplace: false)
    }

    fileprivate func put(_ text: String, in file: UInt64, at offset: Int = 0) throws {
        _ = try text.bytes.withUnsafeBytes { try write($0, to: file, at: offset, isSynchronous: false) }
    }

    fileprivate func number(_ name: String) throws -> UInt64 { try #require(try lookup(name.bytes, in: 1)).number }

    fileprivate func text(_ name: String) throws -> String { try content(try number(name)) }

    fileprivate func content(_ file: UInt64) throws -> String {
        var bytes = [UInt8](repeating: 1, count: try inode(file).size)
        let count = try bytes.withUnsafeMutableBytes { try read(file, into: $0, from: 0) }
        #expect(count == bytes.count)
        return String(decoding: bytes, as: UTF8.self)
    }

    fileprivate func names() throws -> [String] {
        try entries(of: 1).map { String(decoding: $0.name, as: UTF8.self) }.sorted()
    }

    fileprivate func contents() throws -> [String: String] {
        Dictionary(uniqueKeysWithValues: try names().map { ($0, try text($0)) })
    }
}

extension String {
    fileprivate var bytes: [UInt8] { Array(utf8) }
}

extension [UInt8] {
    fileprivate func chunks(of size: Int) -> [[UInt8]] {
        stride(from: 0, to: count, by: size).map { Array(self[$0..<Swift.min($0 + size, count)]) }
    }
}
