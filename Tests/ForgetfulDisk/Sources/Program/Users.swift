import Glibc

/// The processes that use a file system.
enum Users {
    /// Their numbers and names, and one path of each.
    static func of(_ mountPoint: String) -> String {
        names(in: "/proc").filter { Int($0) != nil }.compactMap { process in
            path(of: process, on: mountPoint).map { "\(process) (\(name(of: process)): \($0))" }
        }.joined(separator: ", ")
    }

    /// The processes in whose mount namespace it is mounted.
    static func mounting(_ mountPoint: String) -> String {
        names(in: "/proc").filter { Int($0) != nil && hasMount($0, mountPoint) }
            .map { "\($0) (\(name(of: $0)))" }.joined(separator: ", ")
    }

    private static func hasMount(_ process: String, _ mountPoint: String) -> Bool {
        guard let file = fopen("/proc/\(process)/mounts", "r") else { return false }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 2 * Int(PATH_MAX))
        while fgets(&line, Int32(line.count), file) != nil {
            if text(line).split(separator: " ").dropFirst().first.map(String.init) == mountPoint { return true }
        }
        return false
    }

    /// The first line in a buffer of C.
    private static func text(_ line: [CChar]) -> String {
        String(decoding: line.prefix { $0 != 0 && $0 != 10 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    private static func path(of process: String, on mountPoint: String) -> String? {
        let folder = "/proc/\(process)"
        let links =
            ["cwd", "root", "exe"]
            + ["fd", "map_files"].flatMap { kind in
                names(in: "\(folder)/\(kind)").map { "\(kind)/\($0)" }
            }
        return links.lazy.compactMap { target(of: "\(folder)/\($0)") }.first {
            $0 == mountPoint || $0.hasPrefix(mountPoint + "/")
        }
    }

    private static func name(of process: String) -> String {
        guard let file = fopen("/proc/\(process)/comm", "r") else { return "?" }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 64)
        guard fgets(&line, Int32(line.count), file) != nil else { return "?" }
        return text(line)
    }

    private static func names(in folder: String) -> [String] {
        guard let stream = opendir(folder) else { return [] }
        defer { closedir(stream) }
        var names: [String] = []
        while let entry = readdir(stream) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: Int(NAME_MAX) + 1) { String(cString: $0) }
            }
            if !name.hasPrefix(".") { names.append(name) }
        }
        return names
    }

    private static func target(of link: String) -> String? {
        var buffer = [UInt8](repeating: 0, count: Int(PATH_MAX))
        let count = buffer.withUnsafeMutableBytes { bytes in
            bytes.baseAddress.map { readlink(link, $0.assumingMemoryBound(to: CChar.self), bytes.count) } ?? -1
        }
        return count < 0 ? nil : String(decoding: buffer.prefix(count), as: UTF8.self)
    }
}
