import BrokerJournal
import BrokerStore
import Foundation
import Testing
import TestSupport

@testable import BrokerCoordinator

/// Starts that are refused because of the journal, and what a restore would forget.
extension CoordinatorJournalTests {
    /// The files of a folder and of its folders, but for the memory that SQLite's connections share.
    private func contents(_ folder: TemporaryFolder) throws -> [String: Data] {
        var contents: [String: Data] = [:]
        for name in try FileManager.default.subpathsOfDirectory(atPath: folder.path("")) where !name.hasSuffix("-shm") {
            contents[name] = FileManager.default.contents(atPath: folder.path(name))
        }
        return contents
    }

    @Test(arguments: ["damaged", "cut short", "lacks its files", "waits without --journal"])
    func `a start that is refused because of the journal leaves the WAL of a killed server`(fault: String) throws {
        let test = try coordinator()
        for number in 1...5 { test.submit(row(number), id: "\(number)") }
        _ = test.events.ends(5)
        if fault.hasPrefix("waits") {
            _ = test.coordinator.pause()
            test.submit(row(6), id: "6", wantsAcceptance: true)
            test.events.waitUntil("accepted 6 6")
        }
        let folder = try crashed(test)
        test.coordinator.resume()
        let file = folder.path("store.sqlite.journal/0000000000000001.jobs")
        var bytes = try Data(contentsOf: URL(filePath: file))
        switch fault {
        case "damaged":
            bytes[bytes.count / 2] ^= 0xFF
            try bytes.write(to: URL(filePath: file))
        case "cut short": try bytes.prefix(bytes.count / 2).write(to: URL(filePath: file))
        case "lacks its files": try FileManager.default.removeItem(atPath: file)
        default: break
        }
        let before = try contents(folder)
        #expect(before["store.sqlite-wal"]?.isEmpty == false)
        for _ in 0..<2 {
            #expect(throws: StoreError.self) {
                try coordinator(in: folder) { $0.keepsJournal = !fault.hasPrefix("waits") }
            }
            #expect(try contents(folder) == before)
        }
    }

    @Test func `the accepted jobs that a store has not applied are counted, and none after a clean stop`() throws {
        let folder = TemporaryFolder()
        let store = folder.path("store.sqlite")
        do {
            let test = try coordinator(in: folder)
            test.submit(row(1), id: "a")
            _ = test.events.ends(1)
        }
        #expect(try JournalFinding.pendingJobs(store: store) == 0)
        let entries = (2...4).map { position in
            JournalEntry(
                .job, position: Int64(position), id: "job-\(position)", time: 0, payload: Array(row(position).utf8))
        }
        try append(entries, to: folder)
        #expect(try JournalFinding.pendingJobs(store: store) == 3)
        do { _ = try coordinator(in: folder) }
        #expect(try JournalFinding.pendingJobs(store: store) == 0)
    }
}
