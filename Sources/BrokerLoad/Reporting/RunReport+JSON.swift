internal import BrokerJSON

extension RunReport {
    /// One object on one line. Times are microseconds unless a name says otherwise.
    package var json: [UInt8] {
        var writer = JSONWriter(capacity: 16 << 10)
        writer.object { writer in
            if let offeredRate { writer.member("offeredJobsPerSecond", offeredRate) }
            writer.member("seconds", result.seconds)
            writer.member("jobs", result.jobs)
            writer.member("records", result.records)
            writer.member("jobsPerSecond", result.jobsPerSecond)
            writer.member("recordsPerSecond", result.recordsPerSecond)
            writer.member("contentBytes", result.contentBytes)
            writer.member("frameBytes", result.frameBytes)
            writeTotals(to: &writer)
            writer.key("latencyMicroseconds")
            writer.object { writer in
                writer.member("completed", result.completed)
                if result.accepted.count > 0 { writer.member("accepted", result.accepted) }
            }
            writer.member("lagMicroseconds", result.lag)
            writer.key("stagesMicroseconds")
            writer.object { writer in
                for (name, histogram) in zip(Answer.Stages.names, result.stages) { writer.member(name, histogram) }
            }
            writeServer(to: &writer)
            writer.key("harness")
            writer.object { writer in
                writer.member("senderSeconds", result.senderSeconds)
                writer.member("processorSeconds", result.harnessSeconds)
                writer.member("frameWaits", result.frameWaits)
            }
            writeIntervals(to: &writer)
            writer.member("settings", settings)
            writer.member("environment", environment.facts)
        }
        return writer.bytes
    }

    private func writeTotals(to writer: inout JSONWriter) {
        let totals = result.totals
        writer.key("total")
        writer.object { writer in
            writer.member("sent", totals.sent)
            writer.member("ok", totals.ok)
            writer.member("withRejects", totals.withRejects)
            writer.member("failed", totals.failed)
            writer.member("busy", totals.busy)
            writer.member("lost", result.lost)
            writer.member("duplicate", totals.duplicate)
            writer.member("repeatedAnswers", totals.repeatedAnswers)
            writer.member("strangeAnswers", totals.strangeAnswers)
        }
        writer.key("failures")
        writer.object { writer in
            for (code, failure) in result.failures.sorted(by: { $0.key < $1.key }) {
                writer.member(code, failure.count)
            }
        }
        writer.key("objects")
        writer.object { writer in
            writer.member("inserted", result.objects.inserted)
            writer.member("updated", result.objects.updated)
            writer.member("unchanged", result.objects.unchanged)
            writer.member("deleted", result.objects.deleted)
            writer.member("rejected", result.objects.rejected)
        }
    }

    private func writeServer(to writer: inout JSONWriter) {
        writer.key("server")
        writer.object { writer in
            if let process = result.server.process { writer.member("process", Int(process)) }
            if let serverSeconds { writer.member("processorSeconds", serverSeconds) }
            if let after = result.server.after {
                writer.member("residentBytes", after.residentBytes)
                writer.member("peakResidentBytes", after.peakBytes)
            }
            if let jobsPerCommit { writer.member("jobsPerCommit", jobsPerCommit) }
            writer.member("mostOpening", peak(\.opening))
            writer.member("mostStaging", peak(\.staging))
            writer.member("mostQueuedBytes", peak(\.queuedBytes))
            writer.member("mostLogBytes", peak(\.logBytes))
            guard let stats = result.server.stats else { return }
            writer.key("stats")
            writer.raw(stats)
        }
    }

    private func writeIntervals(to writer: inout JSONWriter) {
        writer.key("intervals")
        writer.array { writer in
            for interval in result.intervals {
                writer.object { writer in
                    writer.member("start", interval.start)
                    writer.member("seconds", interval.seconds)
                    writer.member("jobs", interval.jobs)
                    writer.member("records", interval.records)
                    writer.member("p50", Double(interval.p50) / 1e3)
                    writer.member("p99", Double(interval.p99) / 1e3)
                    writer.member("max", Double(interval.highest) / 1e3)
                }
            }
        }
    }
}

extension JSONWriter {
    mutating func member(_ key: String, _ value: Int) {
        self.key(key)
        integer(value)
    }

    mutating func member(_ key: String, _ value: Double) {
        self.key(key)
        double(value)
    }

    mutating func member(_ key: String, _ values: [(name: String, value: String)]) {
        self.key(key)
        object { writer in
            for (name, value) in values { writer.member(name, value) }
        }
    }

    /// The percentiles in microseconds.
    mutating func member(_ key: String, _ histogram: LatencyHistogram) {
        self.key(key)
        object { writer in
            writer.member("count", histogram.count)
            for (name, percent) in RunReport.percentiles {
                writer.member(name, Double(histogram.percentile(percent)) / 1e3)
            }
            writer.member("mean", histogram.mean / 1e3)
        }
    }
}
