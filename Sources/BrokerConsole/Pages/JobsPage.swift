import Broker
import BrokerClient
import BrokerCommandLine
import BrokerModel
import BrokerWire

/// The lists of a `jobs` message.
struct JobLists {
    let forms: Forms?

    func table(of list: JobsMessage.List, _ jobs: [ModelValue]) -> HTML {
        switch list {
        case .running:
            var table = Table(
                "Jobs that have not ended, the oldest first",
                ["job", "#sequence", "stage", "#age", "user"] + (forms == nil ? [] : ["cancel"]))
            for job in jobs {
                let age = job["ageMilliseconds"]?.int.map { ShortText.time(milliseconds: $0) }
                let cancel = forms?.button(
                    "Cancel", action: "/cancel", isBad: true, isInline: true, ["id": job["id"]?.string ?? ""])
                table.add(
                    [
                        Self.link(job), Self.number(job, "sequence"), "\(job["stage"]?.string ?? "")", "\(age ?? "")",
                        Self.user(job),
                    ] + (cancel.map { [$0] } ?? []))
            }
            return table.html(none: "No job is running.")
        case .failed:
            var table = Table("Failed jobs, the newest first", ["job", "error", "accepted", "#sequence", "user"])
            for job in jobs {
                let place = job["error"]?["path"]?.string.map { " at \($0)" } ?? ""
                let code = job["error"]?["code"]?.string ?? ""
                let message = (job["error"]?["message"]?.string ?? "").cut(to: 300)
                table.add([
                    Self.link(job), "<div class=text>\(code)\(place): \(message)</div>", Self.accepted(job),
                    Self.number(job, "sequence"), Self.user(job),
                ])
            }
            return table.html(none: "No job has failed.")
        case .slow:
            var table = Table(
                "Slow jobs, the most work first",
                [
                    "job", "#work", "#total", "#queued", "#staged", "#journal", "#waited", "#merged", "#committed",
                    "operations", "entities", "user",
                ])
            for job in jobs {
                let times = ["work", "total", "queued", "staged", "journalSynced", "waited", "merged", "committed"].map
                { stage -> HTML in
                    "\(job["microseconds"]?[stage]?.int.map { ShortText.time(microseconds: Int64($0)) } ?? "–")"
                }
                let names = ["operations", "entities"].map { list -> HTML in
                    "\((job[list]?.elements.compactMap(\.string) ?? []).joined(separator: ", "))"
                }
                table.add([Self.link(job)] + times + names + [Self.user(job)])
            }
            return table.html(none: "No job was slow.")
        }
    }

    static func link(_ job: ModelValue) -> HTML {
        "\(link(id: job["id"]?.string ?? ""))\(" (failed)", if: job["failed"]?.bool == true)"
    }

    static func link(id: String) -> HTML {
        "<a class=mono href=\"\(URLText.link(["jobs", id]))\">\(id.cut(to: 80))</a>"
    }

    static func number(_ job: ModelValue, _ key: String) -> HTML { "\(job[key]?.int.map { "\($0)" } ?? "–")" }

    static func accepted(_ job: ModelValue) -> HTML {
        "\(job["acceptedAt"]?.int.map { Timestamp(seconds: $0 / 1_000).localText } ?? "–")"
    }

    static func user(_ job: ModelValue) -> HTML { "\(job["user"]?.int.map { UserName.text(of: Int64($0)) } ?? "–")" }
}

/// The jobs that run, were slow, or failed.
struct JobsPage {
    let client: RemoteBroker
    let forms: Forms?
    /// Of the failed ones alone.
    let code: String?

    func html() async throws -> HTML {
        let message = code.map { JobsMessage(lists: [.failed], limit: 200, code: $0) } ?? JobsMessage(limit: 50)
        let answer = try ModelValue(try await client.jobs(message))
        let lists = message.lists.map { list -> HTML in
            JobLists(forms: forms).table(of: list, answer[list.rawValue]?.elements ?? [])
        }
        let title: HTML = code.map { "Failed jobs: \($0)" } ?? "Jobs"
        return """
            <h1>\(title)</h1>\(lists)<p class=m>The server's own user and root see all jobs, other users their own. A slow job took \
            <code>--slow-job</code>, or a second. Much time staged or merged is the work of its own records: send fewer in a job. Waited: \
            other jobs were merged before it, or merging was paused. Journal or committed: the disk is slow.</p>\("<p><a href=\"/jobs\">All lists</a></p>", if: code != nil)
            """
    }
}

/// One job, by all that the server knows of it.
struct JobPage {
    let client: RemoteBroker
    let forms: Forms?
    let id: String

    /// For the outcome of a job that has one.
    private static let patience = Duration.seconds(2)

    func html() async throws -> HTML {
        let lists = try ModelValue(try await client.jobs(JobsMessage(limit: 1_000)))
        let found = JobsMessage.List.allCases.map { list in
            (list, lists[list.rawValue]?.elements.filter { $0["id"]?.string == id } ?? [])
        }.filter { !$0.1.isEmpty }
        let isRunning = found.contains { $0.0 == .running }
        var content: HTML = "<h1>Job <span class=mono>\(id)</span></h1>"
        content += "\(found.map { JobLists(forms: forms).table(of: $0.0, $0.1) })"
        if !isRunning { content += await outcome() }
        return content
    }

    private func outcome() async -> HTML {
        do {
            return html(try await client.completion(of: JobID(id), timeout: Self.patience))
        } catch let error as BrokerError {
            var table = Table("How it ended", ["", ""])
            table.add(["code", "\(error.fault?.code.rawValue ?? error.code.rawValue)"])
            if let path = error.fault?.path { table.add(["path", "<code>\(path)</code>"]) }
            if let sequence = error.sequence { table.add(["sequence", "\(sequence)"]) }
            table.add(["message", "\((error.fault?.message ?? error.message).cut(to: 5_000))"])
            return table.html(none: "")
        } catch {
            return "<p class=note>\("\(error)")</p>"
        }
    }

    private func html(_ completion: Completion) -> HTML {
        var changes = Table(
            "Changes, sequence \(completion.sequence)",
            ["entity", "#inserted", "#updated", "#unchanged", "#deleted", "#rejected"])
        for (entity, of) in completion.changes.sorted(by: { $0.key < $1.key }) {
            let numbers = [of.inserted, of.updated, of.unchanged, of.deleted, of.rejected].map { number -> HTML in
                "\(ShortText.count(number))"
            }
            changes.add([EntityPage.link(entity)] + numbers)
        }
        var rejections = Table("Rejected records", ["place", "entity", "code", "message"])
        for rejection in completion.rejections.prefix(200) {
            rejections.add([
                "<code>\(rejection.path ?? "")</code>", "\(rejection.entity ?? "")", "\(rejection.code.rawValue)",
                "\(rejection.message.cut(to: 500))",
            ])
        }
        var filter = RejectsMessage()
        filter.job = id
        let records: HTML = "<p><a href=\"\(RejectedPage.link(filter))\">Rejected records that are kept</a></p>"
        var warnings = Table("Warnings", ["code", "entity", "key", "#count"])
        for warning in completion.warnings {
            warnings.add([
                "\(warning.code.rawValue)", "\(warning.entity ?? "")", "\(warning.key ?? "")",
                "\(warning.count.map { "\($0)" } ?? "")",
            ])
        }
        return """
            <h2>Committed</h2>\(changes.html(none: "Nothing was changed."))\(completion.timing.map(Self.stages))\
            \(rejections.html(none: "None."))\(records, if: !completion.rejections.isEmpty)\(warnings.html(none: "None."))
            """
    }

    private static func stages(_ timing: Completion.Timing) -> HTML {
        let stages: [(String, Duration)] = [
            ("queued", timing.queued), ("staged", timing.staged), ("journal", timing.journalSynced),
            ("waited", timing.waited), ("merged", timing.merged), ("committed", timing.committed),
        ]
        var table = Table("Time in each stage", stages.map { "#\($0.0)" })
        table.add(stages.map { "\(ShortText.time($0.1))" })
        return table.html(none: "")
    }
}
