#if Replication
internal import BrokerJSON

/// A failure that JetStream answered with.
struct JetStreamFailure: Error {
    let code: Int
    let text: String

    // The numbers of nats-server's errors.json.
    static let accountResourcesExceeded = 10_002
    static let notAvailable = 10_008
    static let notLeader = 10_009
    static let insufficientResources = 10_023
    static let noPeers = 10_005
    static let noMessage = 10_037
    static let notEnabledForAccount = 10_039
    static let storageExceeded = 10_047
    static let nameInUse = 10_058
    static let streamNotFound = 10_059
    static let wrongLastSequence = 10_071
    static let replicasNeedCluster = 10_074
    static let notEnabled = 10_076
    static let storeFailed = 10_077
    static let wrongLastSequenceInFlight = 10_164
    static let batchIncomplete = 10_176

    /// The servers cannot answer now, but may later.
    var isTemporary: Bool { code == Self.notAvailable || code == Self.notLeader }

    var hasNoJetStream: Bool { code == Self.notEnabled || code == Self.notEnabledForAccount }

    var hasNoRoom: Bool {
        switch code {
        case Self.accountResourcesExceeded, Self.insufficientResources, Self.storageExceeded, Self.storeFailed: true
        default: false
        }
    }

    /// nil for an answer without an error.
    init?(_ answer: JSONValue) {
        guard let error = answer["error"] else { return nil }
        code = Int(error["err_code"]?.int64 ?? error["code"]?.int64 ?? 0)
        text = "\(error["description"]?.string ?? "no description") (\(code))"
    }
}

extension StreamConnection {
    /// Microseconds until a request is sent again.
    private static let requestTime: Int64 = 3_000_000
    /// Microseconds between two requests when the servers cannot answer.
    private static let pauseTime: Int64 = 150_000

    /// Calls JetStream, again and again until there is an answer.
    ///
    /// - Parameters:
    ///   - patience: microseconds until it throws ``ReplicationError/Code/unavailable``, or
    ///     ``ReplicationError/Code/noJetStream``; nil for ever.
    ///   - body: a JSON text, or nothing.
    ///   - read: takes what is needed of the answer, whose values are valid only there.
    func call<Content>(
        _ subject: String, _ body: [UInt8] = [], patience: Int64?, _ token: StopToken? = nil,
        read: (JSONValue) -> Content
    ) throws(ReplicationError) -> Result<Content, JetStreamFailure> {
        let start = monotonicMicroseconds()
        while true {
            try checkClosed()
            let reason: String
            var isUnknownSubject = false
            switch request(subject, body, deadline: monotonicMicroseconds() + Self.requestTime, token) {
            case .stopped: throw .stopped
            case .disconnected: reason = state.lastError.map { "no connection: \($0)" } ?? "no connection"
            case .timedOut: reason = "no answer; JetStream may have no quorum"
            case .noResponders:
                reason = "JetStream does not answer there"
                isUnknownSubject = true
            case .message(let bytes):
                switch Self.parse(bytes, read) {
                case .success(let content): return .success(content)
                case .failure(let failure) where failure.isTemporary: reason = failure.text
                case .failure(let failure): return .failure(failure)
                case nil: reason = "the answer is no JSON"
                }
            }
            if let patience, monotonicMicroseconds() - start >= patience {
                if isUnknownSubject { throw noJetStream }
                throw ReplicationError(
                    .unavailable,
                    "The servers \(address.hosts) did not answer \(subject) in \(patience / 1_000_000) s: \(reason). "
                        + "Check that they run and reach each other.")
            }
            try pause(Self.pauseTime, token)
        }
    }

    /// nil when the bytes are no JSON.
    static func parse<Content>(_ bytes: [UInt8], _ read: (JSONValue) -> Content) -> Result<Content, JetStreamFailure>? {
        guard let document = try? JSONDocument(parsing: JSONText(copying: bytes)) else { return nil }
        return withExtendedLifetime(document) {
            JetStreamFailure(document.root).map { .failure($0) } ?? .success(read(document.root))
        }
    }

    var noJetStream: ReplicationError {
        ReplicationError(
            .noJetStream,
            "JetStream is not enabled for the account at \(address.hosts). Add a block `jetstream` to the configuration of "
                + "the servers, and enable it for the account.")
    }

    /// - Throws: ``ReplicationError/Code/notAuthorized`` when libnats has given up.
    func checkClosed() throws(ReplicationError) {
        let (isClosed, error) = events.state.withLock { ($0.isClosed, $0.lastError) }
        guard isClosed else { return }
        throw ReplicationError(
            .notAuthorized,
            "The servers \(address.hosts) closed the connection of the log for good: \(error ?? "no reason"). "
                + "Check the credentials and the certificates, then start again.")
    }
}
#endif
