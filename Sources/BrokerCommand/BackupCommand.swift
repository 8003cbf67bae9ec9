import ArgumentParser
import BrokerClient
import BrokerCommandLine
import BrokerJSON
import Glibc

struct BackupCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backup",
        abstract: "Copies the store to a file while the server runs; only its own user and root may.",
        discussion: """
            The server makes the copy, so the file must be where the server may write. The copy contains every job up \
            to the printed sequence, and none after it; it is an ordinary store, for another brokerd or any tool.
            """)

    @OptionGroup var connection: ConnectionOptions

    @Flag(help: "Replace an existing file.")
    var replace = false

    @Flag(help: "Print the result as JSON.")
    var json = false

    @Argument(help: "The copy.", completion: .file())
    var file: String

    mutating func validate() throws {
        try connection.requireServer("A server's store is copied")
        guard !file.isEmpty else { throw ValidationError("The file has no name.") }
    }

    func run() async throws {
        let path = absolute(file)
        let copy = try await connection.connected("broker backup") { broker in
            do {
                return try await broker.backUp(to: path, replacing: replace)
            } catch {
                throw CommandFailure(error)
            }
        }
        guard json else { return try Program.say("\(path): \(copy.byteCount) bytes, every job up to \(copy.sequence)") }
        var writer = JSONWriter()
        writer.object { writer in
            writer.key("file")
            writer.string(path)
            writer.key("sequence")
            writer.integer(copy.sequence)
            writer.key("bytes")
            writer.integer(copy.byteCount)
        }
        try Program.write(String(decoding: writer.bytes, as: UTF8.self))
    }

    /// The server runs in another folder.
    private func absolute(_ file: String) -> String {
        guard file.utf8.first != UInt8(ascii: "/"), let folder = getcwd(nil, 0) else { return file }
        defer { free(folder) }
        return "\(String(cString: folder))/\(file)"
    }
}
