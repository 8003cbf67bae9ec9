package import Broker
package import BrokerJSON

/// A client's request. A job and a fetch are read by the server, from the envelope's document.
package enum ClientMessage {
    case hello(version: Int, client: String?)
    case job
    /// - Parameter after: the answer waits until the server has applied everything up to that sequence.
    case await(id: String, after: Int64?)
    case bookmark(name: String)
    case cancel(id: String)
    case admin(AdminAction)
    /// An `admin` that copies the store.
    ///
    /// - Parameters:
    ///   - file: an absolute path.
    ///   - replaces: an existing file is replaced.
    case backup(file: String, replaces: Bool, wantsProgress: Bool)
    /// An `admin` that changes the store to the model as it now is.
    case migrate(MigrateMessage)
    /// - Parameter after: a sequence that the server is to have applied before it reads.
    case fetch(after: Int64?)
    case subscribe(CommitQuery)
    case ping
    case stats
    case jobs(JobsMessage)
    case model

    /// The action of `backup` on the wire.
    package static let backupAction = "backup"
}

/// The server changes the store to the model as it now is, as a `reload` does, or reports what that would do.
package struct MigrateMessage: Sendable, Equatable {
    /// The name of the action on the wire.
    package static let action = "migrate"

    /// Nothing is changed.
    package let isDryRun: Bool
    package let removedParts: RemovedParts

    package init(isDryRun: Bool, removedParts: RemovedParts) {
        self.isDryRun = isDryRun
        self.removedParts = removedParts
    }

    /// Writes the members of the message.
    package func write(to writer: inout JSONWriter) {
        writer.member("action", Self.action)
        writer.member("dryRun", isDryRun)
        writer.member("removedParts", removedParts.rawValue)
    }
}

/// A client's message and the fields that every message may have.
// `message` is values, and `document` is immutable, so an envelope may move between threads.
package struct ClientEnvelope: @unchecked Sendable {
    /// The only supported version of the protocol.
    package static let protocolVersion = 1
    /// The maximum bytes of a tag as JSON text: the server stores one for each message that is not answered.
    package static let maximumTagCount = 1_024
    /// Bytes of memory that an operation takes until it is staged, besides its records: that of the job, and the name and the
    /// path on the heap.
    package static let operationMemory = 512

    package let message: ClientMessage
    /// The client's `tag` as JSON text, which every answer returns.
    package let tag: [UInt8]?
    package let document: JSONDocument

    /// The message's `id`, whatever its type is; nil when it has none that may be returned.
    package var id: String? { withExtendedLifetime(document) { document.root["id"]?.returnableID } }
}
