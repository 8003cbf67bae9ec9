import ArgumentParser
import Broker
import BrokerClient
import BrokerCommandLine
import BrokerJSON
import BrokerStore
import Glibc

struct BackupCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backup",
        abstract: "Copies the store to a file while the server runs; only its own user and root may.",
        discussion: """
            The server makes the copy, so the file must be where the server may write. The copy contains every job up \
            to the printed sequence, and none after it; it is an ordinary store, for another brokerd or any tool. \
            `broker restore` puts it in a store's place.

            For a daily backup: broker backup --keep 7 --verify /var/backups/broker/company.sqlite
            """)

    @OptionGroup var connection: ConnectionOptions

    @Flag(help: "Replace an existing file.")
    var replace = false

    @Option(
        help: ArgumentHelp(
            """
            Put the time into the file's name (company-20261125T213000Z.sqlite), and delete the oldest such files until \
            so many are left, when the copy is complete.
            """, valueName: "count"))
    var keep: Int?

    @Flag(
        help: """
            Read the whole copy again and check its structure and links. A damaged copy is renamed to FILE.damaged, no \
            older one is deleted, and the status is 1.
            """)
    var verify = false

    @Flag(help: "Print the result as JSON.")
    var json = false

    @Argument(help: "The copy.", completion: .file())
    var file: String

    mutating func validate() throws {
        guard !file.isEmpty else { throw ValidationError("The file has no name.") }
        if let keep {
            try NumberOption("--keep", keep, in: 1...1_000_000).check()
            guard !replace else {
                throw ValidationError("--keep gives each copy a name of its own, so --replace does not apply.")
            }
        }
    }

    func run() async throws {
        let series = BackupSeries(absolutePath(file))
        let path = keep == nil ? absolutePath(file) : series.file(of: Timestamp.now.fileNamePart)
        let copy = try await connection.connected("broker backup") { broker in
            do {
                return try await broker.backUp(to: path, replacing: replace)
            } catch {
                throw CommandFailure(error)
            }
        }
        if verify { try Self.verify(path) }
        let deleted = try keep.map { count throws(CommandFailure) in try series.prune(keeping: count) } ?? []
        guard json else {
            try Program.say(
                "\(path): \(copy.byteCount) bytes, every job up to \(copy.sequence)\(verify ? ", verified" : "")")
            for file in deleted { try Program.say("\(file): deleted") }
            return
        }
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("file", path)
            writer.key("sequence")
            writer.integer(copy.sequence)
            writer.key("bytes")
            writer.integer(copy.byteCount)
            writer.key("verified")
            writer.bool(verify)
            writer.key("deleted")
            writer.array { writer in
                for file in deleted { writer.string(file) }
            }
        }
        try Program.write(String(decoding: writer.bytes, as: UTF8.self))
    }

    /// - Throws: when the copy is damaged; it has another name then.
    private static func verify(_ path: String) throws(CommandFailure) {
        let faults: [String]
        do throws(StoreError) {
            faults = try StoreVerification.faults(of: path)
        } catch {
            throw CommandFailure(.failed, "The copy \(path) cannot be verified. \(error.message)")
        }
        guard !faults.isEmpty else { return }
        let isRenamed = rename(path, path + ".damaged") == 0
        throw CommandFailure(
            .failed,
            "The copy \(isRenamed ? path + ".damaged" : path) is damaged, and older backups stay: "
                + "\(faults.joined(separator: "; ")). Check the disk and the store, then make another copy.")
    }
}

/// The server runs in another folder.
func absolutePath(_ file: String) -> String {
    guard file.utf8.first != UInt8(ascii: "/"), let folder = getcwd(nil, 0) else { return file }
    defer { free(folder) }
    return "\(String(cString: folder))/\(file)"
}
