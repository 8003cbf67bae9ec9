import Foundation
import Testing
import TestSupport

@testable import BrokerStore

@Suite(.timeLimit(.minutes(5))) struct StoreLockTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path("store") }
    private let files = FileManager.default

    private func refusal(_ path: String) throws -> StoreError {
        try #require(throws: StoreError.self) { try StoreLock(storePath: path) }
    }

    @Test func `a second owner is refused with the process of the first`() throws {
        let lock = try StoreLock(storePath: path)
        let error = try refusal(path)
        #expect(error.code == .unavailable)
        #expect(error.message.contains("process \(getpid())"))
        #expect(error.message.contains("--store"))
        withExtendedLifetime(lock) {}
    }

    @Test func `a lock ends with its owner, and another store has another`() throws {
        do {
            let lock = try StoreLock(storePath: path)
            _ = try StoreLock(storePath: folder.path("other"))
            withExtendedLifetime(lock) {}
        }
        _ = try StoreLock(storePath: path)
    }

    @Test func `the lock is the store's, whatever its name`() throws {
        let lock = try StoreLock(storePath: path)
        try files.createDirectory(atPath: folder.path("sub"), withIntermediateDirectories: false)
        try files.createSymbolicLink(atPath: folder.path("link"), withDestinationPath: "store")
        try files.createSymbolicLink(atPath: folder.path("sub/link"), withDestinationPath: "../link")
        try files.createSymbolicLink(atPath: folder.path("folder"), withDestinationPath: folder.path(""))
        try files.linkItem(atPath: path, toPath: folder.path("hard"))
        let descriptor = open(folder.path("sub"), O_RDONLY)
        defer { close(descriptor) }
        let names = [
            "link", "sub/link", "sub/../store", "./store", "folder/store", "folder/link", "hard",
            "/proc/self/fd/\(descriptor)/../store",
        ]
        for name in names {
            let error = try refusal(name.hasPrefix("/") ? name : folder.path("") + "/" + name)
            #expect(error.message.contains("belongs to another broker, process \(getpid())"), "\(name): \(error)")
        }
        withExtendedLifetime(lock) {}
        #expect(try files.contentsOfDirectory(atPath: folder.path("sub")) == ["link"], "no lock beside a link")
        #expect(!files.fileExists(atPath: folder.path("hard.lock")))
    }

    @Test func `an owner that is refused in the same process does not end SQLite's own locks`() throws {
        let lock = try StoreLock(storePath: path)
        let connection = try Connection(store: path)
        try connection.execute("CREATE TABLE t (x); BEGIN; SELECT * FROM t")
        try files.linkItem(atPath: path, toPath: folder.path("hard"))
        // Open until the end: to close it would end SQLite's locks, too. A lock of an open file meets the process's own.
        let descriptor = open(path, O_RDWR | O_CLOEXEC)
        defer { close(descriptor) }
        let isLocked = {
            var wanted = flock()
            wanted.l_type = Int16(F_WRLCK)
            wanted.l_whence = Int16(SEEK_SET)
            let getOpenFileLock: Int32 = 36  // F_OFD_GETLK, fcntl(2)
            return fcntl(descriptor, getOpenFileLock, &wanted) == 0 && wanted.l_type != Int16(F_UNLCK)
        }
        #expect(isLocked())
        _ = try refusal(folder.path("hard"))
        #expect(isLocked())
        withExtendedLifetime((lock, connection)) {}
    }

    @Test func `a store that is not there yet has one lock, too, through a link that leads to it`() throws {
        try files.createSymbolicLink(atPath: folder.path("link"), withDestinationPath: "store")
        let lock = try StoreLock(storePath: folder.path("link"))
        #expect(try refusal(path).message.contains("process"))
        #expect(files.fileExists(atPath: folder.path("store.lock")))
        withExtendedLifetime(lock) {}
    }

    @Test func `a name whose file was replaced is still its owner's`() throws {
        let lock = try StoreLock(storePath: path)
        try files.removeItem(atPath: path)
        try Data().write(to: URL(filePath: path))
        #expect(try refusal(path).message.contains("process"))
        withExtendedLifetime(lock) {}
    }

    @Test func `a store with two names is refused, because its WAL has only one`() throws {
        try Data().write(to: URL(filePath: path))
        try files.linkItem(atPath: path, toPath: folder.path("hard"))
        #expect(try refusal(folder.path("hard")).message.contains("hard links"))
        #expect(try files.contentsOfDirectory(atPath: folder.path("")).sorted() == ["hard", "store"])
    }

    @Test func `a file with the lock's name is neither followed nor overwritten`() throws {
        let letter = "a letter of mine\n"
        try letter.write(toFile: folder.path("letter"), atomically: false, encoding: .utf8)
        try files.createSymbolicLink(atPath: folder.path("store.lock"), withDestinationPath: "letter")
        #expect(try refusal(path).message.contains("store.lock is a symbolic link"))
        try files.removeItem(atPath: folder.path("store.lock"))
        try files.linkItem(atPath: folder.path("letter"), toPath: folder.path("store.lock"))
        #expect(try refusal(path).message.contains("no lock file of Broker's"))
        try files.removeItem(atPath: folder.path("store.lock"))
        try letter.write(toFile: folder.path("store.lock"), atomically: false, encoding: .utf8)
        #expect(try refusal(path).message.contains("no lock file of Broker's"))
        #expect(try String(contentsOfFile: folder.path("letter"), encoding: .utf8) == letter)
        #expect(try String(contentsOfFile: folder.path("store.lock"), encoding: .utf8) == letter)
        #expect(!files.fileExists(atPath: path))
    }

    @Test(arguments: ["", "\0\0\0\0\0", "12345678\0\0"])
    func `a lock file that a power failure has left is taken over`(content: String) throws {
        try content.write(toFile: folder.path("store.lock"), atomically: false, encoding: .utf8)
        let lock = try StoreLock(storePath: path)
        #expect(try String(contentsOfFile: folder.path("store.lock"), encoding: .utf8) == "\(getpid())\n")
        withExtendedLifetime(lock) {}
    }

    @Test func `the lock file of one that was killed is taken over`() throws {
        try "1234567890\n".write(toFile: folder.path("store.lock"), atomically: false, encoding: .utf8)
        let lock = try StoreLock(storePath: path)
        #expect(try String(contentsOfFile: folder.path("store.lock"), encoding: .utf8) == "\(getpid())\n")
        withExtendedLifetime(lock) {}
    }

    @Test func `files of a failed start are deleted, and existing files stay`() throws {
        let lock = try StoreLock(storePath: path)
        lock.abandon()
        #expect(try files.contentsOfDirectory(atPath: folder.path("")) == [])
        try Data("x".utf8).write(to: URL(filePath: folder.path("there")))
        try StoreLock(storePath: folder.path("there")).abandon()
        #expect(try files.contentsOfDirectory(atPath: folder.path("")) == ["there"])
        withExtendedLifetime(lock) {}
    }

    @Test func `a missing folder is reported with the store's path`() throws {
        #expect(try refusal("/nowhere/at/all/store").message.contains("/nowhere/at/all/store"))
    }

    private func mode(_ suffix: String) throws -> UInt32 {
        var status = stat()
        try #require(lstat(path + suffix, &status) == 0)
        return status.permissions
    }

    @Test func `new files have the requested mode, and existing ones retain theirs until it is set`() throws {
        do {
            let lock = try StoreLock(storePath: path, mode: 0o666)
            #expect(try [mode(""), mode(".lock")] == [0o666, 0o666])
            withExtendedLifetime(lock) {}
        }
        let lock = try StoreLock(storePath: path, mode: 0o600)
        #expect(try [mode(""), mode(".lock")] == [0o666, 0o666])
        let connection = try Connection(store: path)
        try connection.execute("PRAGMA journal_mode = WAL; CREATE TABLE t (x)")
        #expect(try [mode("-wal"), mode("-shm")] == [0o666, 0o666])
        try lock.setMode(0o600)
        #expect(try ["", ".lock", "-wal", "-shm"].map(mode) == [0o600, 0o600, 0o600, 0o600])
        withExtendedLifetime((lock, connection)) {}
    }

    @Test(.enabled(if: geteuid() == 0, "only root may give files away and use them all the same"))
    func `root can set the mode of another user's store`() throws {
        do { _ = try StoreLock(storePath: path) }
        #expect(chown(path, 65_534, 65_534) == 0)
        let lock = try StoreLock(storePath: path, mode: 0o600)
        try lock.setMode(0o600)
        #expect(try mode("") == 0o600)
    }
}
