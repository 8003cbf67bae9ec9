import Broker
import BrokerCommandLine
import Glibc

/// What the server does now, and did in the last hour.
struct NowPage {
    let reading: Watcher.Reading
    let points: [Watcher.Point]
    /// The forms of an operator; nil for reads alone.
    let forms: Forms?
    /// In milliseconds since 1970.
    var moment = Int64(Glibc.time(nil)) * 1_000

    var html: HTML {
        let health = reading.health
        let alert: HTML = "<p class=alert role=alert>\(health.line)</p>"
        guard let now = reading.statistics else { return "<h1>Now</h1>\(alert)" }
        return """
            <h1>Now</h1>\(alert, if: health.state != .serving)\(Signs(now: now, moment: moment).html)\(facts(now))<p class=m>The last \(minutes) minutes</p>\
            <div class=charts>\(charts)</div><div class=cols><section>\(running)\(server(now))\(now.log.flatMap(replicas))</section><section>\(stages(now))</section>\
            <section>\(records(now))</section><section>\(faults(now))</section></div>\(controls)
            """
    }

    /// The charts grow with the time that this console runs.
    private var span: Int { min(Watcher.capacity, max(60, points.count)) }

    private var minutes: Int { span / 12 }

    private var controls: HTML? {
        guard let forms, let statistics = reading.statistics else { return nil }
        return statistics.isPaused
            ? forms.button("Resume merging", action: "/resume")
            : forms.button("Pause merging", action: "/pause", isBad: true)
    }

    private func time(_ time: Duration) -> String { ShortText.time(time) }

    private func facts(_ now: Statistics) -> HTML {
        let (rates, minute) = (points.last, now.lastMinute)
        let total = minute.flatMap { $0.latencies.total.max == .zero ? nil : $0.latencies.total }
        let oldest = now.jobs.inFlight > 0 ? now.queues.oldestMilliseconds : nil
        let readers = (now.wal.readers ?? []).map(\.shown)
        let facts: [(name: HTML, value: String?, detail: String)] = [
            (
                "Jobs a second", rates?.jobs.map(ShortText.rate),
                "\(ShortText.count(minute?.jobs.completed ?? 0)) in a minute"
            ),
            (
                "Records a second", rates?.records.map(ShortText.rate),
                "\(ShortText.count(minute?.objects.sum ?? 0)) in a minute"
            ),
            (
                "<a href=\"/jobs\">Failed jobs</a>", ShortText.count(now.jobs.failed),
                "\(ShortText.count(minute?.jobs.failed ?? 0)) in a minute"
            ),
            (
                "In flight", ShortText.count(now.jobs.inFlight),
                oldest.map { "oldest \(ShortText.time(milliseconds: $0))" }
                    ?? "\(now.queues.opening) opening, \(now.queues.staging) staging"
            ),
            (
                "<a href=\"/jobs\">Latency p99</a>", total.map { time($0.p99) },
                total.map { "p50 \(time($0.p50)), max \(time($0.max))" } ?? "no job in a minute"
            ),
            (
                "WAL", ShortText.bytes(now.wal.bytes),
                readers.isEmpty
                    ? "\(ShortText.count(now.wal.uncheckpointedPages)) pages to copy"
                    : "read by \(readers.joined(separator: ", "))"
            ),
            (
                "Memory", now.memory.map { ShortText.bytes($0.residentBytes) },
                "\(ShortText.bytes(now.queues.bytes)) in jobs"
            ),
            (
                "Store", now.store.bytes.map(ShortText.bytes),
                "\(now.store.freeDiskBytes.map(ShortText.bytes) ?? "–") free"
            ),
            (
                "Newest backup",
                now.store.backedUpAt.map { ShortText.time(milliseconds: max(0, Int(moment - $0))) } ?? "never",
                now.store.backedUpAt == nil ? "broker backup makes one" : "ago"
            ),
            (
                "<a href=\"/clients\">Connections</a>", now.connections.map { ShortText.count($0.open) },
                "of \(now.connections.map { ShortText.count($0.maximum) } ?? "–"); \(now.subscriptions) subscriptions"
            ),
        ]
        let list = facts.map { fact -> HTML in
            "<div><dt>\(fact.name)</dt><dd>\(fact.value ?? "–")<small>\(fact.detail)</small></dd></div>"
        }
        return "<dl class=facts>\(list)</dl>"
    }

    private var charts: [HTML] {
        func chart(_ title: String, _ value: (Watcher.Point) -> Double?, _ shown: @escaping (Double) -> String) -> HTML
        {
            Chart(title: title, values: points.map(value), capacity: span, shown: shown).html
        }
        return [
            chart("Jobs a second", \.jobs, ShortText.rate), chart("Records a second", \.records, ShortText.rate),
            chart("Latency p99", \.p99) { time(.microseconds($0)) },
            chart("In flight", \.inFlight) { ShortText.count(Int($0)) },
            chart("WAL", \.wal) { ShortText.bytes(Int($0)) }, chart("Memory", \.memory) { ShortText.bytes(Int($0)) },
        ]
    }

    private var running: HTML {
        JobLists(forms: forms).table(of: .running, reading.running)
    }

    private func stages(_ now: Statistics) -> HTML {
        var table = Table(
            "Time in each stage", ["stage", "#p50, last minute", "#p99", "#p50, since the start", "#p99", "#max"])
        let minute = now.lastMinute?.latencies
        let isIdle = minute?.total.max == .zero
        for (name, stage) in Statistics.stages {
            guard let all = stage(now.latencies) else { continue }
            let last = isIdle ? nil : minute.flatMap(stage)
            table.add(
                [
                    name, last.map { time($0.p50) } ?? "–", last.map { time($0.p99) } ?? "–", time(all.p50),
                    time(all.p99), time(all.max),
                ]
                .map { "\($0)" })
        }
        return table.html(none: "")
    }

    private func records(_ now: Statistics) -> HTML {
        var objects = Table("What became of records", ["", "#last minute", "#since the start"])
        for (name, value) in [
            ("inserted", \Statistics.Objects.inserted), ("updated", \.updated), ("unchanged", \.unchanged),
            ("deleted", \.deleted),
            ("rejected", \.rejected),
        ] {
            let minute = now.lastMinute.map { ShortText.count($0.objects[keyPath: value]) }
            objects.add(["\(name)", "\(minute ?? "–")", "\(ShortText.count(now.objects[keyPath: value]))"])
        }
        return objects.html(none: "")
    }

    private func faults(_ now: Statistics) -> HTML {
        var faults = Table("Failed jobs by code, rejected records by entity", ["", "#since the start"])
        for (code, count) in now.failures.sorted(by: { $0.value > $1.value }) {
            faults.add([
                "<a href=\"\(URLText.link(["jobs"], ["code": code]))\">\(code)</a>", "\(ShortText.count(count))",
            ])
        }
        for (entity, count) in (now.rejects ?? [:]).sorted(by: { $0.value > $1.value }) {
            let link = URLText.link(["rejected"], ["entity": entity])
            faults.add(["<a href=\"\(link)\">records of \(entity)</a>", "\(ShortText.count(count))"])
        }
        return faults.html(none: "None.")
    }

    private func server(_ now: Statistics) -> HTML {
        var table = Table("The server and its store", ["", ""])
        func row(_ name: HTML, _ value: String?) { if let value { table.add([name, "\(value)"]) } }
        func moment(_ milliseconds: Int64?) -> String {
            milliseconds.map { Timestamp(seconds: Int($0 / 1_000)).localText } ?? "never"
        }
        row("version", now.server)
        row("up", now.uptimeMilliseconds.map { ShortText.time(milliseconds: $0) })
        row("store", now.storeFile)
        row("outcomes", now.store.outcomes.map(ShortText.count))
        row("last backup", moment(now.store.backedUpAt))
        row("WAL copied", now.store.checkpointedAt.map { moment($0) })
        row(
            "last reload",
            now.lastReload.map { "\(moment($0.at)), \($0.isSuccessful ? "done" : "refused: \($0.reason ?? "")")" })
        row("journal", now.journal.map { "\(ShortText.bytes($0.bytes)), \($0.waiting) entries waiting" })
        row(
            "log",
            now.log.map { log in
                "\(log.stream ?? log.kind): position \(log.position), \(log.lag) entries not applied"
                    + (log.isHalted ? ", halted: \(log.reason ?? "")" : log.cause.map { ", \($0)" } ?? "")
            })
        return table.html(none: "")
    }

    /// The servers that share the log, as of the position that is applied here.
    private func replicas(_ log: Statistics.Log) -> HTML? {
        guard let replicas = log.replicas, !replicas.isEmpty else { return nil }
        var table = Table(
            "Replicas of the shared log",
            ["replica", "#entries not on its disk", "#entries not in its backup", "#newest entry"])
        for (name, replica) in replicas.sorted(by: { $0.key < $1.key }) {
            func behind(_ position: Int64) -> HTML { "\(ShortText.count(max(0, Int(log.last - position))))" }
            table.add([
                "\(name)\(" <span class=m>(this server)</span>", if: name == log.replica)", behind(replica.durable),
                replica.backup == 0 ? "no backup" : behind(replica.backup),
                "\(ShortText.time(milliseconds: max(0, Int(moment - replica.time)))) ago",
            ])
        }
        return table.html(none: "")
    }
}

/// The forms of `--allow-write`.
struct Forms: Sendable {
    /// Which the answer must repeat.
    let token: String

    /// - Parameter fields: sent with it.
    func button(
        _ title: String, action: String, isBad: Bool = false, isInline: Bool = false,
        _ fields: KeyValuePairs<String, String> = [:]
    ) -> HTML {
        let isNamed = isInline && !fields.isEmpty
        let name: HTML = " aria-label=\"\(title) \(fields.map(\.value).joined(separator: " "))\""
        let hidden = fields.map { name, value -> HTML in "<input type=hidden name=\"\(name)\" value=\"\(value)\">" }
        return """
            <form method=post action="\(action)"\(" class=in", if: isInline)><input type=hidden name=form value="\(token)">\(hidden)\
            <button\(" class=bad", if: isBad)\(name, if: isNamed)>\(title)</button></form>
            """
    }
}
