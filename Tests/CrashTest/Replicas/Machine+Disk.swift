import Foundation
import TestSupport

/// The file system of a machine.
extension Machine {
    /// Bytes of one that can be full.
    private static let diskBytes = 192 << 20
    private static let patience: Duration = .seconds(60)

    private var place: String { "\(FileManager.default.currentDirectoryPath)/\(data)" }
    private var diskLog: String { "\(name)/disk.log" }

    func mountDisk(forgetful seed: UInt64?) throws {
        guard let seed, let program = programs.disk else {
            try Shell.run(["mount", "-t", "tmpfs", "-o", "size=\(Self.diskBytes)", "none", place])
            return
        }
        disk = try start([program, place, "--seed", "\(seed &* 3 &+ UInt64(number))"], diskLog)
        try awaitLine("ready", 1)
    }

    func unmountDisk() throws {
        guard let disk else {
            try Shell.run(["umount", place])
            return
        }
        disk.terminate()
        let deadline = ContinuousClock.now + Self.patience
        while !disk.hasEnded, ContinuousClock.now < deadline { usleep(1_000) }
        self.disk = nil
    }

    // MARK: - Power

    /// After ``kill()``: what was not synced is lost. Comes back before it is.
    func forget() -> Int {
        guard let disk else { return 0 }
        let cuts = lines("cut")
        Foundation.kill(disk.number, SIGUSR1)
        return cuts + 1
    }

    /// Waits for the end of ``forget()``.
    func awaitForgetting(_ number: Int) throws { try awaitLine("cut", number) }

    private func lines(_ word: String) -> Int {
        let text = (try? String(contentsOfFile: diskLog, encoding: .utf8)) ?? ""
        return text.split(separator: "\n").count { $0.hasPrefix(word) }
    }

    private func awaitLine(_ word: String, _ number: Int) throws {
        let deadline = ContinuousClock.now + Self.patience
        while lines(word) < number {
            guard disk.map({ !$0.hasEnded }) ?? false, ContinuousClock.now < deadline else {
                throw Difference("\(name)'s disk has not become \(word); see \(diskLog).")
            }
            usleep(1_000)
        }
    }

    // MARK: - A full disk

    private var ballast: String { "\(data)/ballast" }

    var isFull: Bool { FileManager.default.fileExists(atPath: ballast) }

    func fillDisk() throws {
        _ = try Shell.attempt([
            "dd", "if=/dev/zero", "of=\(ballast)", "bs=1M", "count=\(Self.diskBytes >> 20)",
        ])
    }

    func emptyDisk() throws { try FileManager.default.removeItem(atPath: ballast) }

    // MARK: - The store

    /// The server has ended. It starts again with that file, as if an operator had copied it.
    func replaceStore(by file: String) throws {
        for suffix in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: store + suffix) }
        try Shell.run(["cp", file, store])
        try Shell.run(["sync", store, URL(fileURLWithPath: store).deletingLastPathComponent().path])
    }
}
