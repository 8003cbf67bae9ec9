import Foundation

/// A folder of the test's own, removed with this object.
public final class TemporaryFolder: Sendable {
    private let location = FileManager.default.temporaryDirectory.appending(path: "broker-\(UUID().uuidString)")

    public init() {
        do {
            try FileManager.default.createDirectory(at: location, withIntermediateDirectories: true)
        } catch {
            preconditionFailure("no folder for a test: \(error)")
        }
    }

    deinit {
        do {
            try FileManager.default.removeItem(at: location)
        } catch {
            preconditionFailure("a test's folder cannot be deleted: \(error)")
        }
    }

    public func path(_ name: String) -> String { location.appending(path: name).path }
}
