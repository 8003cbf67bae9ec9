internal import Broker
internal import Metrics
internal import Tracing

/// Counts, times and traces the jobs of a client.
///
/// - `broker_client_jobs_total`, with the dimension `outcome`: `completed`, `failed`, `cancelled` or `unknown`.
/// - `broker_client_job_duration`: from the call to its end.
///
/// With a tracer, each job is a span of the kind `client`, whose context travels in the job's `trace`. The tracer is the one that
/// was bootstrapped when the client was made.
struct JobObservation: Sendable {
    private let completed: Counter
    private let failed: Counter
    private let cancelled: Counter
    private let unknown: Counter
    private let duration: Metrics.Timer
    /// Nil without a tracer, so that a job costs nothing for it.
    private let tracer: (any Tracer)?

    /// - Parameter name: the client's, as the dimension `client` of all metrics; empty for none.
    /// - Parameter tracer: nil for the one that was bootstrapped.
    init(name: String, tracer: (any Tracer)? = nil) {
        let client = name.isEmpty ? [] : [("client", name)]
        func jobs(_ outcome: String) -> Counter {
            Counter(label: "broker_client_jobs_total", dimensions: client + [("outcome", outcome)])
        }
        completed = jobs("completed")
        failed = jobs("failed")
        cancelled = jobs("cancelled")
        unknown = jobs("unknown")
        duration = Metrics.Timer(label: "broker_client_job_duration", dimensions: client)
        let tracer = tracer ?? InstrumentationSystem.tracer
        self.tracer = tracer is NoOpTracer ? nil : tracer
    }

    func observing(_ job: Job, _ call: (Job) async throws -> Completion) async throws -> Completion {
        guard let tracer else { return try await timed(job, call) }
        return try await tracer.withAnySpan("broker job", ofKind: .client) { span in
            var job = job
            job.trace = job.trace ?? Self.traceparent(of: span.context, by: tracer)
            if let id = job.id { span.attributes["broker.job.id"] = id.text }
            let completion = try await timed(job, call)
            span.attributes["broker.job.sequence"] = completion.sequence
            return completion
        }
    }

    private func timed(_ job: Job, _ call: (Job) async throws -> Completion) async throws -> Completion {
        let begin = ContinuousClock.now
        defer { duration.record(duration: ContinuousClock.now - begin) }
        do {
            let completion = try await call(job)
            completed.increment()
            return completion
        } catch {
            switch error {
            case is CancellationError: cancelled.increment()
            case let error as BrokerError where error.isOutcomeUnknown: unknown.increment()
            default: failed.increment()
            }
            throw error
        }
    }

    /// The header of that name, if the instrument writes W3C's headers.
    static func traceparent(of context: ServiceContext, by instrument: some Instrument) -> String? {
        var carrier: [String: String] = [:]
        instrument.inject(context, into: &carrier, using: CarrierInjector())
        return carrier["traceparent"]
    }
}

private struct CarrierInjector: Injector {
    func inject(_ value: String, forKey key: String, into carrier: inout [String: String]) { carrier[key] = value }
}
