import ArgumentParser
import BrokerCommandLine
import BrokerCoordinator
import Glibc
#if Replication
import BrokerReplication
#endif

/// The options of a server that shares its log with others.
struct ReplicaOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            """
            Take part in a log that several servers share, instead of a journal: nats://HOST,HOST,HOST/NAME (`broker log create` makes \
            it). Each server has all of it in a store of its own.
            """, valueName: "address"))
    var log: String?

    @OptionGroup
    var access: SharedLogOptions

    @Option(help: "The name of this server in the log, which no other one has. The host's name by default.")
    var replica: String?

    /// At most that of a host.
    private static let longestName = 64

    mutating func validate() throws {
        guard let replica else { return }
        guard !replica.isEmpty, replica.utf8.count <= Self.longestName else {
            throw ValidationError("--replica has 1 to \(Self.longestName) bytes, but has \(replica.utf8.count).")
        }
    }

    /// Nil without the option.
    func source() throws(CommandFailure) -> SharedLogSource? {
        guard let log else { return nil }
        #if Replication
        do throws(ReplicationError) {
            let address = try SharedLogAddress(log, access)
            return .nats(address.log, address.files, replica: replica ?? Self.hostName, system: address.system)
        } catch {
            throw CommandFailure(.failed, error.message)
        }
        #else
        throw CommandFailure(
            .failed,
            "This brokerd cannot share the log \(log): it was built without the trait Replication. Build it with "
                + "--traits Replication.")
        #endif
    }

    private static var hostName: String {
        var name = [CChar](repeating: 0, count: longestName + 1)
        gethostname(&name, longestName)
        return String(decoding: name.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}
