// For doubles of tests, which implement only what they need, and `close()`: in an async context, a default that is `async` would be
// chosen before the function of `RemoteBroker`, which is not.
extension BrokerService {
    @discardableResult public func process(_ job: Job) async throws -> Completion { throw notImplemented() }

    public func submit(_ job: Job) async throws -> SubmittedJob { throw notImplemented() }

    public func completion(of id: JobID) async throws -> Completion { throw notImplemented() }

    public func cancel(_ id: JobID) async throws { throw notImplemented() }

    public func fetch(_ query: Query) async throws -> QueryResult { throw notImplemented() }

    public func bookmark(named name: String) async throws -> StoredBookmark? { throw notImplemented() }

    public func results(of query: Query) -> QueryResults {
        QueryResults { { throw notImplemented("results(of:)") } }
    }

    public func commits(for query: CommitQuery) -> Commits {
        Commits { { throw notImplemented("commits(for:)") } }
    }

    public func statistics() async throws -> Statistics { throw notImplemented() }

    public func model() async throws -> ModelDescription { throw notImplemented() }

    @discardableResult public func administer(_ action: AdminAction) async throws -> AdminResult {
        throw notImplemented()
    }

    public func backUp(to file: String, replacing: Bool) async throws -> Backup { throw notImplemented() }

    private func notImplemented(_ call: String = #function) -> BrokerError {
        BrokerError(.unsupported, "\(Self.self) does not implement \(call).")
    }
}
