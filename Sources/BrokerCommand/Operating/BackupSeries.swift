import BrokerCommandLine
import Glibc

/// Backups of one store over time, in one folder: `company-20261125T213000Z.sqlite` for the file `company.sqlite`.
struct BackupSeries {
    private let folder: String
    /// `company` and `.sqlite`.
    private let stem: String
    private let ending: String

    /// - Parameter file: an absolute path.
    init(_ file: String) {
        let slash = file.utf8.lastIndex(of: UInt8(ascii: "/"))!
        folder = slash == file.startIndex ? "/" : String(file[..<slash])
        let name = file[file.utf8.index(after: slash)...]
        let dot = name.utf8.dropFirst().lastIndex(of: UInt8(ascii: "."))
        stem = String(dot.map { name[..<$0] } ?? name)
        ending = String(dot.map { name[$0...] } ?? "")
    }

    /// - Parameter time: as ``Timestamp/fileNamePart``.
    func file(of time: String) -> String { path("\(stem)-\(time)\(ending)") }

    /// Deletes the oldest files of the series.
    ///
    /// - Parameter count: how many stay.
    /// - Returns: the paths of the deleted files, the oldest first.
    /// - Throws: when the folder cannot be read, or one of them cannot be deleted.
    func prune(keeping count: Int) throws(CommandFailure) -> [String] {
        // Names sort by their times.
        let old = try names().sorted().dropLast(count).map(path)
        for file in old where unlink(file) != 0 {
            throw CommandFailure(
                .failed,
                "The old backup \(file) cannot be deleted: \(String(cString: strerror(errno))). Delete it by hand; the new "
                    + "backup is complete.")
        }
        return old
    }

    private func path(_ name: String) -> String { folder == "/" ? "/\(name)" : "\(folder)/\(name)" }

    private func names() throws(CommandFailure) -> [String] {
        guard let directory = opendir(folder) else {
            throw CommandFailure(.failed, "The folder \(folder) cannot be read: \(String(cString: strerror(errno))).")
        }
        defer { closedir(directory) }
        var names: [String] = []
        while let entry = readdir(directory) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if isMember(name) { names.append(name) }
        }
        return names
    }

    private func isMember(_ name: String) -> Bool {
        guard name.hasPrefix("\(stem)-"), name.hasSuffix(ending) else { return false }
        return Timestamp.isFileNamePart(name.dropFirst(stem.count + 1).dropLast(ending.count))
    }
}
