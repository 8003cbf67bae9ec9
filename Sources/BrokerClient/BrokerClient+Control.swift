internal import BrokerWire

// Cancellation of jobs, and administration of the server.
extension BrokerClient {
    /// Cancels the jobs of that id: they fail with `cancelled` and have no effect. Either all jobs of that id that have
    /// not ended are cancelled, or none is.
    ///
    /// - Throws: `refused` with the code `tooLate` when the merge of one has begun or it has ended, with `unknownJob`
    ///   when the server does not know it or it belongs to another user; `outcomeUnknown` when the connection was lost,
    ///   or the task was cancelled, before the answer came.
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

    /// The administrative actions of a server.
    public enum AdminAction: String, Sendable, CaseIterable {
        /// Jobs are accepted, and none is merged.
        case pause
        case resume
        /// New jobs are refused, those accepted are finished, and the server ends.
        case drain
        /// SQLite's WAL is copied into the database.
        case checkpoint
        /// The model is read again, and applied completely or not at all.
        case reload
    }

    /// Requests an action that only the server's own user and root may request.
    ///
    /// - Returns: the server's answer, the `done` message of the protocol.
    /// - Throws: `refused`, with the code `unauthorized` for other users; `connectionLost` when the connection was
    ///   lost, or the task was cancelled, before the answer came: the request is not sent again, and the action may
    ///   have been done.
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

    /// Makes the server copy its store to a file while it continues to merge jobs. For the server's own user and root.
    ///
    /// - Parameters:
    ///   - file: an absolute path on the server's machine.
    ///   - replacing: whether an existing file is replaced.
    /// - Returns: the newest job in the copy (it has every job up to that one, and no later one), and the bytes of the
    ///   file.
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
    /// Cancels the job; see ``BrokerClient/cancel(_:)``. Tasks that wait for the ``completion`` get `failed` with the
    /// code `cancelled`.
    public func cancel() async throws { try await client.cancel(id) }
}

extension BrokerClient.SentJob {
    /// Cancels the job; see ``BrokerClient/cancel(_:)``. Tasks that wait for the ``completion`` get `failed` with the
    /// code `cancelled`.
    public func cancel() async throws { try await client.cancel(id) }
}
