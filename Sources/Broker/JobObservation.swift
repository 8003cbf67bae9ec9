internal import Metrics
package import Tracing

/// Counts, times and traces the jobs of a client or of an embedded broker, from the call to the job's end.
///
/// - `broker_client_jobs_total`, with the dimension `outcome`: `completed`, `failed`, `cancelled` or `unknown`.
/// - `broker_client_job_duration`.
/// - `broker_client_jobs_in_progress`: the jobs that have not ended.
///
/// Those of an embedded broker begin with `broker_embedded`. With a tracer, each job is a span, whose context travels in the job's
/// `trace`. The tracer is the one that was bootstrapped when the client was made.
package struct JobObservation: Sendable {
    /// The library that runs the jobs.
    package enum Library: String, Sendable {
        case client, embedded
    }

    /// Called with the job's end, once.
    package typealias End = @Sendable (Result<Completion, any Error>) -> Void

    private let completed: Counter
    private let failed: Counter
    private let cancelled: Counter
    private let unknown: Counter
    private let duration: Metrics.Timer
    private let inProgress: Meter
    private let kind: SpanKind
    /// Nil without a tracer, so that a job costs nothing for it.
    private let tracer: (any Tracer)?

    /// - Parameters:
    ///   - name: the client's, as the dimension `client` of all metrics; empty for none.
    ///   - tracer: nil for the one that was bootstrapped.
    package init(_ library: Library, name: String = "", tracer: (any Tracer)? = nil) {
        let prefix = "broker_\(library.rawValue)"
        let client = name.isEmpty ? [] : [("client", name)]
        func jobs(_ outcome: String) -> Counter {
            Counter(label: "\(prefix)_jobs_total", dimensions: client + [("outcome", outcome)])
        }
        completed = jobs("completed")
        failed = jobs("failed")
        cancelled = jobs("cancelled")
        unknown = jobs("unknown")
        duration = Metrics.Timer(label: "\(prefix)_job_duration", dimensions: client)
        inProgress = Meter(label: "\(prefix)_jobs_in_progress", dimensions: client)
        kind = library == .client ? .client : .internal
        let tracer = tracer ?? InstrumentationSystem.tracer
        self.tracer = tracer is NoOpTracer ? nil : tracer
    }

    /// Observes a job whose end the call waits for.
    package func observing(_ job: Job, _ call: (Job) async throws -> Completion) async throws -> Completion {
        var job = job
        let begin = ContinuousClock.now
        let span = start(&job)
        do {
            let completion = try await call(job)
            end(.success(completion), span, since: begin)
            return completion
        } catch {
            end(.failure(error), span, since: begin)
            throw error
        }
    }

    /// Begins to observe a job that ends later.
    ///
    /// - Parameter job: gets the `trace` of its span.
    /// - Returns: to be called with the job's end.
    package func begin(_ job: inout Job) -> End {
        let begin = ContinuousClock.now
        let span = start(&job)
        return { end($0, span, since: begin) }
    }

    private func start(_ job: inout Job) -> (any Span)? {
        inProgress.increment()
        guard let tracer else { return nil }
        let span = tracer.startAnySpan("broker job", ofKind: kind)
        job.trace = job.trace ?? Self.traceparent(of: span.context, by: tracer)
        if let id = job.id { span.attributes["broker.job.id"] = id.text }
        return span
    }

    private func end(
        _ result: Result<Completion, any Error>, _ span: (any Span)?, since begin: ContinuousClock.Instant
    ) {
        count(result, since: begin)
        guard let span else { return }
        switch result {
        case .success(let completion): span.attributes["broker.job.sequence"] = completion.sequence
        case .failure(let error): span.recordError(error)
        }
        span.end()
    }

    private func count(_ result: Result<Completion, any Error>, since begin: ContinuousClock.Instant) {
        inProgress.decrement()
        duration.record(duration: ContinuousClock.now - begin)
        switch result {
        case .success: completed.increment()
        case .failure(is CancellationError): cancelled.increment()
        case .failure(let error as BrokerError) where error.isOutcomeUnknown: unknown.increment()
        case .failure: failed.increment()
        }
    }

    /// The header of that name, if the instrument writes W3C's headers.
    package static func traceparent(of context: ServiceContext, by instrument: some Instrument) -> String? {
        var carrier: [String: String] = [:]
        instrument.inject(context, into: &carrier, using: CarrierInjector())
        return carrier["traceparent"]
    }
}

private struct CarrierInjector: Injector {
    func inject(_ value: String, forKey key: String, into carrier: inout [String: String]) { carrier[key] = value }
}
