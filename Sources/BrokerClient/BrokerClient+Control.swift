internal import BrokerWire

// Jobs that are taken back, and the work of whoever operates the server.
extension BrokerClient {
    /// Takes back a job of that id, whoever waits for it: it fails with `cancelled`, and has no effect. All jobs of that id
    /// that have not ended are taken back together, or none is.
    ///
    /// - Throws: `refused` with the code `tooLate` when its merge has begun or it has ended, with `unknownJob` when the server
    ///   does not know it or it is another user's; `outcomeUnknown` when the connection was lost, or the task was cancelled,
    ///   before the answer came.
    public func cancel(_ id: String) async throws {
        guard JobID.byteCounts.contains(id.utf8.count) else { throw BrokerError.invalidID(id) }
        do {
            let answer = try await request(isSentOnce: true, orOnCancellation: BrokerError.waitCancelled(id)) {
                ClientMessageWriter.cancel(id: id, tag: $0)
            }
            guard case .cancelled = answer.message else { throw unexpected(answer, to: "cancel") }
        } catch let error as BrokerError {
            guard case .connectionLost = error else { throw error }
            throw error.doubting(JobID(id))
        }
    }

    /// What whoever operates a server may ask of it.
    public enum AdminAction: String, Sendable, CaseIterable {
        /// Jobs are accepted, and none is merged.
        case pause
        case resume
        /// New jobs are refused, those accepted are finished, and the server ends.
        case drain
        /// SQLite's log is copied into the database.
        case checkpoint
        /// The model is read anew, and applied whole or not at all.
        case reload
    }

    /// Asks the server for something that only its own user and root may ask for.
    ///
    /// - Returns: the server's answer, the `done` message of the protocol.
    /// - Throws: `refused`, with the code `unauthorized` when this user may not; `connectionLost` when the connection was lost,
    ///   or the task was cancelled, before the answer came: it is not asked again, and may have been done.
    @discardableResult public func administer(_ action: AdminAction) async throws -> JSON {
        let asked: BrokerWire.AdminAction =
            switch action {
            case .pause: .pause
            case .resume: .resume
            case .drain: .drain
            case .checkpoint: .checkpoint
            case .reload: .reload
            }
        let answer = try await request(isSentOnce: true, orOnCancellation: Self.adminWaitCancelled) {
            ClientMessageWriter.admin(asked, tag: $0)
        }
        guard case .done = answer.message else { throw unexpected(answer, to: "admin") }
        let text = answer.document.text
        return withExtendedLifetime(text) { JSON(text.bytes) }
    }
}

extension BrokerClient {
    fileprivate static let adminWaitCancelled = BrokerError.connectionLost(
        reason: "the task was cancelled before the answer came, and the action may have been done")

    /// Has the server copy its store to a file, beside the writer, which goes on. For its own user and root.
    ///
    /// - Parameters:
    ///   - file: an absolute path, where the server runs.
    ///   - replacing: whether a file that is there gives way.
    /// - Returns: the newest job in the copy (every job up to it is there, and none behind it), and the bytes of the file.
    /// - Throws: `refused`; `connectionLost` when the connection was lost before the answer came, and then there is no copy.
    public func backUp(to file: String, replacing: Bool = false) async throws -> (sequence: Int64, bytes: Int64) {
        let answer = try await request(isSentOnce: true, orOnCancellation: Self.adminWaitCancelled) {
            ClientMessageWriter.backup(file: file, replaces: replacing, tag: $0)
        }
        guard case .done = answer.message, let sequence = answer.document.root["sequence"]?.int64,
            let bytes = answer.document.root["bytes"]?.int64
        else { throw unexpected(answer, to: "backup") }
        return (sequence, bytes)
    }
}

extension BrokerClient.JobTicket {
    /// Takes the job back; see ``BrokerClient/cancel(_:)``. Who waits for the ``completion`` gets `failed` with the code
    /// `cancelled` then.
    public func cancel() async throws { try await client.cancel(id) }
}

extension BrokerClient.SentJob {
    /// Takes the job back; see ``BrokerClient/cancel(_:)``. Who waits for the ``completion`` gets `failed` with the code
    /// `cancelled` then.
    public func cancel() async throws { try await client.cancel(id) }
}
