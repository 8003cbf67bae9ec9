internal import Broker

#if canImport(FoundationEssentials)
internal import FoundationEssentials
#else
internal import Foundation
#endif

/// The folder of a temporary store; deleted with this object.
final class TemporaryStore: Sendable {
    let path: String
    private let folder: String

    /// The file system in memory of Linux; elsewhere, the system's folder for temporary files.
    private static let memory = "/dev/shm"

    init() throws(BrokerError) {
        let files = FileManager.default
        let place = files.isWritableFile(atPath: Self.memory) ? Self.memory : files.temporaryDirectory.path
        folder = "\(place)/broker-\(UUID().uuidString)"
        path = "\(folder)/store.sqlite"
        do {
            try files.createDirectory(
                atPath: folder, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
        } catch {
            throw BrokerError(.cannotOpen, "The folder of a temporary store cannot be made: \(error)")
        }
    }

    func delete() { try? FileManager.default.removeItem(atPath: folder) }

    deinit { delete() }
}
