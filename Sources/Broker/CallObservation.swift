internal import Logging
package import Metrics
internal import Synchronization
package import Tracing

/// Counts, times, traces and logs the calls of a client or of an embedded broker: its jobs, fetches and feeds, from the call to
/// its end.
///
/// - `broker_client_jobs_total`, with the dimension `outcome`: `completed`, `failed`, `cancelled` or `unknown`.
/// - `broker_client_job_duration`.
/// - `broker_client_jobs_in_progress`: the jobs that have not ended.
/// - The same for fetches and feeds, without `unknown`, and `broker_client_commits_total`: the commits that feeds delivered.
///
/// Those of an embedded broker begin with `broker_embedded`. With a tracer, each job and each fetch is a span, and each commit that a
/// feed delivers; a job's context travels in its `trace`. The tracer is the one that was bootstrapped when the client was made. The
/// end of each call is logged at the level `debug` to `Logger.current` of the task that made it.
package struct CallObservation: Sendable {
    /// The library that makes the calls.
    package enum Library: String, Sendable {
        case client, embedded
    }

    /// Called with the job's end, once.
    package typealias End = @Sendable (Result<Completion, any Error>) -> Void

    private let jobs: CallMetrics
    private let fetches: CallMetrics
    private let feeds: CallMetrics
    private let deliveredCommits: Counter
    private let kind: SpanKind
    /// Nil without a tracer, so that a call costs nothing for it.
    private let tracer: (any Tracer)?

    /// - Parameters:
    ///   - name: the client's, as the dimension `client` of all metrics; empty for none.
    ///   - tracer: nil for the one that was bootstrapped.
    ///   - metrics: nil for those that were bootstrapped.
    package init(
        _ library: Library, name: String = "", tracer: (any Tracer)? = nil, metrics: (any MetricsFactory)? = nil
    ) {
        let prefix = "broker_\(library.rawValue)"
        let client = name.isEmpty ? [] : [("client", name)]
        let factory = metrics ?? MetricsSystem.factory
        jobs = CallMetrics(
            total: "\(prefix)_jobs_total", duration: "\(prefix)_job_duration", inProgress: "\(prefix)_jobs_in_progress",
            client, factory, mayBeUnknown: true)
        fetches = CallMetrics(
            total: "\(prefix)_fetches_total", duration: "\(prefix)_fetch_duration",
            inProgress: "\(prefix)_fetches_in_progress", client, factory)
        feeds = CallMetrics(
            total: "\(prefix)_feeds_total", duration: "\(prefix)_feed_duration",
            inProgress: "\(prefix)_feeds_in_progress", client, factory)
        deliveredCommits = Counter(label: "\(prefix)_commits_total", dimensions: client, factory: factory)
        kind = library == .client ? .client : .internal
        let tracer = tracer ?? InstrumentationSystem.tracer
        self.tracer = tracer is NoOpTracer ? nil : tracer
    }

    // MARK: - Jobs

    /// Observes a job whose end the call waits for.
    package func observing(_ job: Job, _ call: (Job) async throws -> Completion) async throws -> Completion {
        var job = job
        let end = begin(&job)
        do {
            let completion = try await call(job)
            end(.success(completion))
            return completion
        } catch {
            end(.failure(error))
            throw error
        }
    }

    /// Begins to observe a job that ends later.
    ///
    /// - Parameter job: gets the `trace` of its span.
    /// - Returns: to be called with the job's end.
    package func begin(_ job: inout Job) -> End {
        let call = ObservedCall("job", jobs, span("broker job"), job.id.map { ("broker.job.id", $0.text) })
        if let span = call.span, let tracer {
            job.trace = job.trace ?? Self.traceparent(of: span.context, by: tracer)
        }
        return { result in
            switch result {
            case .success(let completion):
                call.span?.attributes["broker.job.sequence"] = completion.sequence
                call.end()
            case .failure(let error): call.end(error)
            }
        }
    }

    // MARK: - Fetches and feeds

    /// Observes a fetch of one answer.
    package func observing(
        _ query: Query, _ call: () async throws -> QueryResult
    ) async throws -> QueryResult {
        let observed = begin(query)
        do {
            let result = try await call()
            observed.end()
            return result
        } catch {
            observed.end(error)
            throw error
        }
    }

    /// Observes each iteration over the answers to a query, from its first element to its end, as one fetch.
    package func results(
        of query: Query, _ begin: @escaping @Sendable () -> QueryResults.Next
    ) -> QueryResults {
        QueryResults {
            let next = begin()
            let iteration = Iteration(self.begin(query))
            return { try await iteration.next(next) }
        }
    }

    /// Observes each iteration over commits, from its first element to its end, as one feed.
    package func commits(_ query: CommitQuery, _ begin: @escaping @Sendable () -> Commits.Next) -> Commits {
        Commits {
            let next = begin()
            let entities = query.entities?.joined(separator: ",")
            let iteration = Iteration(ObservedCall("feed", feeds, nil, entities.map { ("broker.entities", $0) }))
            return { try await iteration.next { try await receive(next) } }
        }
    }

    private func begin(_ query: Query) -> ObservedCall {
        ObservedCall("fetch", fetches, span("broker fetch"), ("db.collection.name", query.entity))
    }

    /// A feed lasts as long as its program, and a span is exported when it ends. So the span is that of one commit, from when it
    /// is asked for, as OpenTelemetry's "receive" spans of messaging clients are.
    private func receive(_ next: Commits.Next) async throws -> Commit? {
        let span = span("broker commit")
        defer { span?.end() }
        do {
            guard let commit = try await next() else { return nil }
            span?.attributes["broker.job.sequence"] = commit.sequence
            deliveredCommits.increment()
            return commit
        } catch {
            span?.recordError(error)
            throw error
        }
    }

    private func span(_ name: String) -> (any Span)? { tracer?.startAnySpan(name, ofKind: kind) }

    /// The header of that name, if the instrument writes W3C's headers.
    package static func traceparent(of context: ServiceContext, by instrument: some Instrument) -> String? {
        var carrier: [String: String] = [:]
        instrument.inject(context, into: &carrier, using: CarrierInjector())
        return carrier["traceparent"]
    }
}

/// Counts and times the calls of one kind.
private struct CallMetrics: Sendable {
    enum Outcome: String {
        case completed, failed, cancelled, unknown
    }

    private let completed: Counter
    private let failed: Counter
    private let cancelled: Counter
    /// Nil for calls that change nothing.
    private let unknown: Counter?
    private let duration: Metrics.Timer
    private let inProgress: Meter

    init(
        total: String, duration: String, inProgress: String, _ client: [(String, String)],
        _ factory: any MetricsFactory,
        mayBeUnknown: Bool = false
    ) {
        func calls(_ outcome: Outcome) -> Counter {
            Counter(label: total, dimensions: client + [("outcome", outcome.rawValue)], factory: factory)
        }
        completed = calls(.completed)
        failed = calls(.failed)
        cancelled = calls(.cancelled)
        unknown = mayBeUnknown ? calls(.unknown) : nil
        self.duration = Metrics.Timer(label: duration, dimensions: client, factory: factory)
        self.inProgress = Meter(label: inProgress, dimensions: client, factory: factory)
    }

    func begin() { inProgress.increment() }

    /// - Parameter error: nil for a call that succeeded.
    func end(_ error: (any Error)?, after time: Duration) -> Outcome {
        inProgress.decrement()
        duration.record(duration: time)
        switch error {
        case nil: completed.increment()
        case is CancellationError:
            cancelled.increment()
            return .cancelled
        case let error as BrokerError where error.isOutcomeUnknown && unknown != nil:
            unknown?.increment()
            return .unknown
        default:
            failed.increment()
            return .failed
        }
        return .completed
    }
}

/// A call that has begun. It is ended once, from any thread.
private struct ObservedCall: Sendable {
    let span: (any Span)?
    private let name: String
    private let metrics: CallMetrics
    /// Nil when it would log nothing.
    private let logger: Logger?
    private let begin = ContinuousClock.now

    /// - Parameter attribute: what the call is about, for its span and its log message.
    init(_ name: String, _ metrics: CallMetrics, _ span: (any Span)?, _ attribute: (name: String, value: String)?) {
        self.name = name
        self.metrics = metrics
        self.span = span
        var logger = Logger.current
        let isLogged = logger.logLevel <= .debug
        if let attribute {
            span?.attributes[attribute.name] = attribute.value
            if isLogged { logger[metadataKey: attribute.name] = "\(attribute.value)" }
        }
        self.logger = isLogged ? logger : nil
        metrics.begin()
    }

    /// - Parameter error: nil for a call that succeeded.
    func end(_ error: (any Error)? = nil) {
        let duration = ContinuousClock.now - begin
        let outcome = metrics.end(error, after: duration)
        if let error { span?.recordError(error) }
        span?.end()
        guard let logger else { return }
        logger.debug(
            "A \(name) has ended.", error: error, metadata: ["outcome": "\(outcome)", "duration": "\(duration)"])
    }
}

/// A call of several elements. It ends with the last element, with an error, or when the iterator is gone.
private final class Iteration: Sendable {
    private let call: Mutex<ObservedCall?>

    init(_ call: ObservedCall) { self.call = Mutex(call) }

    deinit { end() }

    func next<Element>(_ next: () async throws -> Element?) async throws -> Element? {
        do {
            let element = try await next()
            if element == nil { end() }
            return element
        } catch {
            end(error)
            throw error
        }
    }

    private func end(_ error: (any Error)? = nil) { call.withLock { $0.take() }?.end(error) }
}

private struct CarrierInjector: Injector {
    func inject(_ value: String, forKey key: String, into carrier: inout [String: String]) { carrier[key] = value }
}
