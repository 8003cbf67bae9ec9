package import BrokerJSON
internal import BrokerModel

/// A metric of a server: its name for Prometheus, and where its values are in a `stats` message.
package struct ServerMetric: Sendable {
    package enum Kind: String, Sendable {
        case counter, gauge, histogram
    }

    struct Sample {
        /// After the metric's name.
        var suffix = ""
        var labels: [(name: String, value: String)] = []
        let value: String
    }

    package let name: String
    package let kind: Kind
    package let help: String
    let samples: @Sendable (JSONValue) -> [Sample]

    private init(_ name: String, _ kind: Kind, _ help: String, _ samples: @escaping @Sendable (JSONValue) -> [Sample]) {
        (self.name, self.kind, self.help, self.samples) = ("broker_\(name)", kind, help, samples)
    }

    /// One number without labels, at that path; none where the message lacks it.
    ///
    /// - Parameter unit: how many of the value's units the metric's has.
    private static func number(
        _ name: String, _ kind: Kind, _ path: String, unit: Int64 = 1, _ help: String
    ) -> ServerMetric {
        ServerMetric(name, kind, help) { stats in
            guard let value = stats.at(path.split(separator: ".").map(String.init))?.int64 else { return [] }
            return [Sample(value: Self.quotient(value, unit))]
        }
    }

    /// A number for each member of the object at that path.
    private static func members(
        _ name: String, _ kind: Kind, _ path: String, label: String, help: String, only: [String]? = nil
    ) -> ServerMetric {
        ServerMetric(name, kind, help) { stats in
            (stats[path]?.members.map { ($0.string ?? "", $1) } ?? []).compactMap { key, value in
                guard only?.contains(key) ?? true, let count = value.int64 else { return nil }
                return Sample(labels: [(label, key)], value: "\(count)")
            }
        }
    }

    private static func flag(_ name: String, _ key: String, help: String) -> ServerMetric {
        ServerMetric(name, .gauge, help) { stats in
            stats[key]?.bool.map { [Sample(value: $0 ? "1" : "0")] } ?? []
        }
    }

    private static func histogram(_ name: String, _ stages: [String], help: String) -> ServerMetric {
        ServerMetric(name, .histogram, help) { stats in
            let bounds = stats.at(["histograms", "boundsMicroseconds"])?.elements.compactMap(\.int64) ?? []
            return stages.flatMap { stage -> [Sample] in
                guard let histogram = stats.at(["histograms", stage]), let count = histogram["count"]?.int64 else {
                    return []
                }
                let labels = stages.count > 1 ? [(name: "stage", value: stage)] : []
                let counts = histogram["counts"]?.elements.compactMap(\.int64) ?? []
                let sum = histogram["sumMicroseconds"]?.int64 ?? 0
                return zip(bounds, counts).map { bound, count in
                    Sample(suffix: "_bucket", labels: labels + [("le", quotient(bound, 1_000_000))], value: "\(count)")
                } + [
                    Sample(suffix: "_bucket", labels: labels + [("le", "+Inf")], value: "\(count)"),
                    Sample(suffix: "_sum", labels: labels, value: quotient(sum, 1_000_000)),
                    Sample(suffix: "_count", labels: labels, value: "\(count)"),
                ]
            }
        }
    }

    private static func quotient(_ value: Int64, _ unit: Int64) -> String {
        value % unit == 0 ? "\(value / unit)" : "\(Double(value) / Double(unit))"
    }
}

extension ServerMetric {
    /// All of them, in the order in which they are written.
    package static let all: [ServerMetric] = [
        ServerMetric("info", .gauge, "1, with the name and version of the server.") { stats in
            [Sample(labels: [("server", stats["server"]?.string ?? "")], value: "1")]
        },
        number("uptime_seconds", .gauge, "uptimeMilliseconds", unit: 1_000, "Time since the start."),
        flag("paused", "paused", help: "1 while an administrator has paused merging."),
        flag("draining", "draining", help: "1 while the server ends and refuses new jobs."),
        ServerMetric(
            "config_last_reload_successful", .gauge,
            "0 while the last reload was refused: the next start would fail, too."
        ) { stats in
            [Sample(value: stats.at(["lastReload", "successful"])?.bool == false ? "0" : "1")]
        },
        ServerMetric(
            "store_state", .gauge, "1 for the state that the store is in: serving, waiting, failed or halted."
        ) { stats in
            let state = stats.at(["store", "state"])?.string
            return ["serving", "waiting", "failed", "halted"].map {
                Sample(labels: [("state", $0)], value: $0 == state ? "1" : "0")
            }
        },
        number("jobs_accepted_total", .counter, "jobs.accepted", "Jobs that got a place in the order."),
        number("jobs_completed_total", .counter, "jobs.completed", "Jobs that were committed."),
        number("jobs_duplicate_total", .counter, "jobs.duplicate", "Jobs that had been committed before."),
        number("jobs_failed_total", .counter, "jobs.failed", "Jobs that failed or were refused."),
        // From the start: the first failure ever is an increase, too.
        ServerMetric("job_failures_total", .counter, "Failed jobs by code.") { stats in
            FaultCode.allCases.map { code in
                Sample(
                    labels: [("code", code.rawValue)],
                    value: "\(stats.at(["failures", code.rawValue])?.int64 ?? 0)")
            }
        },
        number("jobs_in_flight", .gauge, "jobs.inFlight", "Jobs that have not ended."),
        number(
            "oldest_job_age_seconds", .gauge, "queues.oldestMilliseconds", unit: 1_000,
            "Time since the oldest job in flight arrived."),
        members("objects_total", .counter, "objects", label: "result", help: "Objects by what jobs did to them."),
        members(
            "rejected_records_total", .counter, "rejects", label: "entity",
            help: "Rejected records by entity; entities that had some."),
        ServerMetric("warnings_total", .counter, "What warnings of jobs counted, by entity and code.") { stats in
            (stats["warnings"]?.members.map { ($0.string ?? "", $1) } ?? []).flatMap { entity, counts in
                counts.members.map { code, count in
                    Sample(
                        labels: [("entity", entity), ("code", code.string ?? "")], value: "\(count.int64 ?? 0)")
                }
            }
        },
        members(
            "interpreted_operations_total", .counter, "interpreted", label: "reason",
            help: "Operations whose records were applied one after the other, by reason."),
        number("commits_total", .counter, "commits", "Transactions."),
        members(
            "queue_length", .gauge, "queues", label: "queue",
            help: "Frames that wait to be opened, and collections that wait to be staged.",
            only: ["opening", "staging"]),
        number("jobs_memory_bytes", .gauge, "queues.bytes", "Memory of the jobs in flight."),
        number("resident_memory_bytes", .gauge, "memory.residentBytes", "Memory of the process."),
        number("store_bytes", .gauge, "store.bytes", "Size of the database's file."),
        number("store_free_disk_bytes", .gauge, "store.freeDiskBytes", "Free bytes of its file system."),
        number("outcomes", .gauge, "store.outcomes", "Outcomes of jobs that are stored."),
        number("outcomes_maximum", .gauge, "store.maximumOutcomes", "As many outcomes are stored at most."),
        number("rejects_kept", .gauge, "store.rejects.count", "Rejected records that are kept."),
        number("rejects_kept_bytes", .gauge, "store.rejects.bytes", "Bytes of the rejected records that are kept."),
        number(
            "rejects_omitted_total", .counter, "store.rejects.omitted",
            "Rejected records that were not kept, or gave way to later ones."),
        number(
            "oldest_outcome_timestamp_seconds", .gauge, "store.oldestOutcomeAt", unit: 1_000,
            "When the job of the oldest stored outcome ended; absent without one."),
        number("wal_bytes", .gauge, "wal.bytes", "Size of the WAL's file."),
        number(
            "wal_uncheckpointed_pages", .gauge, "wal.uncheckpointedPages",
            "Pages of the WAL that are not in the database."),
        number(
            "last_checkpoint_timestamp_seconds", .gauge, "store.checkpointedAt", unit: 1_000,
            "When the whole WAL was last copied into the database; absent until then."),
        number(
            "last_backup_timestamp_seconds", .gauge, "store.backedUpAt", unit: 1_000,
            "When the last backup was done; absent until then."),
        number("journal_bytes", .gauge, "journal.bytes", "Size of the journal's files."),
        number("journal_waiting_entries", .gauge, "journal.waiting", "Entries that are not durable yet."),
        number(
            "journal_applied_sequence", .gauge, "journal.applied",
            "Sequence of the newest job of the journal that was applied."),
        number("log_position", .gauge, "log.position", "Position of the shared log that is applied."),
        number("log_lag_entries", .gauge, "log.lag", "Entries of the shared log that are known and not applied."),
        number(
            "log_waiting_entries", .gauge, "log.waiting",
            "Entries of this server that are on their way to the shared log."),
        number("connections", .gauge, "connections.open", "Connections that are open."),
        number("connections_maximum", .gauge, "connections.maximum", "Connections that may be open."),
        number("subscriptions", .gauge, "subscriptions", "Subscriptions of the feed that are open."),
        histogram("job_duration_seconds", ["total"], help: "Time of a job from its frame to the durable transaction."),
        histogram(
            "job_stage_duration_seconds",
            ["queued", "staged", "journalWaited", "journalSynced", "waited", "merged", "committed"],
            help: "Time of a job in each stage; stages of the journal with a journal only."),
        histogram("commit_duration_seconds", ["commit"], help: "Time of a COMMIT."),
    ]
}

extension JSONValue {
    /// The value that these keys of objects lead to.
    package func at(_ path: [String]) -> JSONValue? {
        path.reduce(self) { (value: JSONValue?, key) in value?[key] }
    }
}

/// The measurements of a server in Prometheus' text format, version 0.0.4
/// (prometheus.io/docs/instrumenting/exposition_formats).
package enum PrometheusText {
    /// How every text begins, of every version.
    package static let beginning = "# HELP broker_info "

    /// - Parameter instance: the name of the server, which every line has beside the path of its store: two servers of one machine
    ///   have the same metrics.
    package static func text(_ stats: JSONValue, instance: String) -> String {
        let server = labels(instance: instance, store: stats["storeFile"]?.string)
        return ServerMetric.all.map { metric in
            let lines = metric.samples(stats).map { line(metric.name + $0.suffix, server + $0.labels, $0.value) }
            guard !lines.isEmpty else { return "" }
            return "# HELP \(metric.name) \(metric.help)\n# TYPE \(metric.name) \(metric.kind.rawValue)\n"
                + lines.joined()
        }.joined()
    }

    /// Whether the server answers, for a program that asks it at each scrape.
    ///
    /// - Parameter store: the path of its store, if it is known.
    package static func up(_ isUp: Bool, instance: String, store: String?) -> String {
        "# HELP broker_up 1 while the server answers.\n# TYPE broker_up gauge\n"
            + line("broker_up", labels(instance: instance, store: store), isUp ? "1" : "0")
    }

    /// The name of a server without another one: that of its socket's file, without what follows the first dot.
    package static func instance(ofSocket path: String) -> String {
        let file = path.split(separator: "/").last ?? "broker"
        return file.split(separator: ".").first.map(String.init) ?? "broker"
    }

    private static func labels(instance: String, store: String?) -> [(name: String, value: String)] {
        [("instance", instance)] + (store.map { [("store", $0)] } ?? [])
    }

    private static func line(_ name: String, _ labels: [(name: String, value: String)], _ value: String) -> String {
        "\(name){\(labels.map { "\($0.name)=\"\(escaped($0.value))\"" }.joined(separator: ","))} \(value)\n"
    }

    private static func escaped(_ value: String) -> String {
        value.unicodeScalars.reduce(into: "") { text, scalar in
            switch scalar {
            case "\\": text += "\\\\"
            case "\"": text += "\\\""
            case "\n": text += "\\n"
            default: text.unicodeScalars.append(scalar)
            }
        }
    }
}
