package import ArgumentParser
internal import Foundation
#if Replication
package import BrokerReplication
#endif

/// How the log that several servers share is reached.
package struct SharedLogOptions: ParsableArguments {
    @Option(
        help: .value("file", "The user of the log's servers: a file with USER:PASSWORD, or one that `nsc` wrote."),
        completion: .file())
    package var logCredentials: String?

    @Option(
        help: .value("file", "The authorities that the certificates of the log's servers are checked against."),
        completion: .file())
    package var logCa: String?

    @Option(
        help: ArgumentHelp(
            """
            A user of the system account of the log's servers, in a file as for --log-credentials: it can see whether they sync each \
            write. Without it an accepted job counts as in the memory of most servers, not on their disks.
            """, valueName: "file"), completion: .file())
    package var logSystemCredentials: String?

    package init() {}
}

#if Replication
extension ReplicationError: ExplainedError {}

package struct SharedLogAddress: Sendable {
    package let log: StreamAddress
    package let files: ConnectionFiles
    /// The same as a user of the system account; nil when none is given.
    package let system: (address: StreamAddress, files: ConnectionFiles)?

    package init(_ text: String, _ options: SharedLogOptions) throws(ReplicationError) {
        let address = try StreamAddress(text)
        (log, files) = try Self.user(options.logCredentials, of: address, options)
        system = if let path = options.logSystemCredentials { try Self.user(path, of: address, options) } else { nil }
    }

    private static func user(
        _ path: String?, of address: StreamAddress, _ options: SharedLogOptions
    ) throws(ReplicationError) -> (StreamAddress, ConnectionFiles) {
        var files = ConnectionFiles(authorities: options.logCa)
        guard let path else { return (address, files) }
        let text: String
        do {
            text = try String(contentsOfFile: path, encoding: .utf8).trimmingCharacters(in: .newlines)
        } catch {
            throw ReplicationError(
                .unusableFile, "The file of credentials \(path) cannot be read: \(error.localizedDescription)")
        }
        guard !text.contains("-----BEGIN") else {
            files.credentials = path
            return (address, files)
        }
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, !parts[0].isEmpty else {
            throw ReplicationError(
                .unusableFile,
                "The file of credentials \(path) has neither a line USER:PASSWORD nor what `nsc` writes. Correct it.")
        }
        return (address.signedIn(as: String(parts[0]), password: String(parts[1])), files)
    }
}
#endif
