internal import BrokerJSON
internal import BrokerStaging
internal import BrokerStore
internal import Glibc
internal import Histogram
package import Logging

/// The state of the coordinator at one moment, for the status that a service manager shows.
package struct CoordinatorCondition: Sendable, Equatable {
    package var jobs = 0
    package var isPaused = false
    package var isDraining = false
    /// Why the store takes no writes at the moment; nil when it does.
    package var waitingCause: String?
    /// Why nothing more of a shared log is applied; nil while the server applies it.
    package var haltCause: String?

    package init() {}
}

/// Members of `stats`.
extension Statistics.Counters {
    func writeJobs(to writer: inout JSONWriter, inFlight: Int) {
        writer.object("jobs") { writer in
            writer.member("accepted", accepted)
            writer.member("completed", totals.completed)
            writer.member("failed", totals.failed)
            writer.member("duplicate", totals.duplicates)
            writer.member("inFlight", inFlight)
        }
        writer.counts("failures", failures.map { ($0.rawValue, $1) })
        writer.key("objects")
        totals.objects.write(to: &writer)
        writer.counts("rejects", rejects.map { ($0, $1) })
        writer.object("warnings") { writer in
            for (entity, counts) in warnings.sorted(by: { $0.key < $1.key }) {
                writer.counts(entity, counts.map { ($0.rawValue, $1) })
            }
        }
        writer.counts("interpreted", interpreted.map { ($0.rawValue, $1) })
    }

    func writeStore(at storePath: String, keeping outcomes: Int, to writer: inout JSONWriter) {
        writer.object("store") { writer in
            writer.member("state", store.name)
            if let cause = store.cause {
                writer.member("cause", cause)
            }
            var file = stat()
            if stat(storePath, &file) == 0 { writer.member("bytes", Int64(file.st_size)) }
            var system = statvfs()
            if statvfs(storePath, &system) == 0 {
                writer.member("freeDiskBytes", UInt64(system.f_bavail) * UInt64(system.f_frsize))
            }
            writer.member("outcomes", facts.outcomes)
            writer.member("maximumOutcomes", outcomes)
            writer.object("rejects") { writer in
                writer.member("count", facts.rejects.count)
                writer.member("bytes", facts.rejects.bytes)
                writer.member("omitted", facts.rejects.omitted)
            }
            if let time = facts.oldestOutcomeAt { writer.member("oldestOutcomeAt", time) }
            if let time = facts.wal.checkpointedAt { writer.member("checkpointedAt", time) }
            if let time = backedUpAt { writer.member("backedUpAt", time) }
        }
        writer.object("wal") { writer in
            writer.member("bytes", facts.wal.bytes)
            writer.member("uncheckpointedPages", facts.wal.uncheckpointedPages)
            write(WALReader.others(ofStoreAt: storePath), to: &writer)
        }
    }

    private func write(_ readers: [WALReader], to writer: inout JSONWriter) {
        let known = readers.filter { $0.pid != nil || $0.process != nil }
        guard !known.isEmpty else { return }
        writer.objects("readers", of: known) { reader, writer in
            writer.member("process", reader.process)
            if let pid = reader.pid { writer.member("pid", pid) }
        }
    }

    func writeHistograms(to writer: inout JSONWriter, isJournaled: Bool) {
        writer.object("histograms") { writer in
            LatencyBuckets.writeBounds(to: &writer)
            for stage in StageTimes.stages(isJournaled: isJournaled) {
                writer.key(StageTimes.names[stage])
                buckets[stage].write(to: &writer)
            }
            writer.key("commit")
            batches.commits.write(to: &writer)
        }
    }
}

extension JSONWriter {
    /// The counts by their names, in the order of these.
    fileprivate mutating func counts(_ key: String, _ counts: [(name: String, count: Int)]) {
        object(key) { writer in
            for (name, count) in counts.sorted(by: { $0.name < $1.name }) { writer.member(name, count) }
        }
    }

    /// Its percentiles; zeros when it is empty.
    mutating func member(_ key: String, _ histogram: Histogram<UInt32>) {
        self.key(key)
        object { writer in
            for (key, percentile) in [("p50", 50.0), ("p90", 90), ("p99", 99), ("max", 100)] {
                writer.member(key, histogram.totalCount == 0 ? 0 : histogram.valueAtPercentile(percentile))
            }
        }
    }
}

/// Passes log events on, without characters by which an outside text could forge a line or a field, or send an escape
/// sequence to a terminal.
///
/// Job ids, client names, paths and error messages quote what clients and files contain. Every line of the server and
/// the coordinator goes through this handler, or through one that is ``/BrokerJSON/EscapingItself``, so no call of a logger
/// has to escape.
struct EscapingLogHandler: LogHandler {
    var base: any LogHandler

    var logLevel: Logger.Level {
        get { base.logLevel }
        set { base.logLevel = newValue }
    }

    var metadata: Logger.Metadata {
        get { base.metadata }
        set { base.metadata = newValue }
    }

    var metadataProvider: Logger.MetadataProvider? {
        get { base.metadataProvider }
        set { base.metadataProvider = newValue }
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { base[metadataKey: key] }
        set { base[metadataKey: key] = newValue }
    }

    func log(event: LogEvent) {
        var event = event
        event.message = Logger.Message(stringLiteral: event.message.description.printable)
        event.metadata = event.metadata?.mapValues(\.escaped)
        base.log(event: event)
    }
}

extension Logger {
    /// The same logger, whose lines are escaped (see ``EscapingLogHandler``).
    package var escaping: Logger {
        guard !(handler is EscapingLogHandler), !(handler is any EscapingItself) else { return self }
        var logger = self
        logger.handler = EscapingLogHandler(base: handler)
        return logger
    }
}

extension Logger.MetadataValue {
    fileprivate var escaped: Logger.MetadataValue {
        switch self {
        case .string(let text): .string(text.quotedForLog)
        case .stringConvertible(let value): .string(value.description.quotedForLog)
        case .array(let values): .array(values.map(\.escaped))
        case .dictionary(let values): .dictionary(values.mapValues(\.escaped))
        }
    }
}
