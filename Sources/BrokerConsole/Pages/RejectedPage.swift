import Broker
import BrokerClient
import BrokerCommandLine
import BrokerModel
import BrokerWire

/// The records that jobs skipped, the newest first.
struct RejectedPage {
    static let rows = 50

    let client: RemoteBroker
    let forms: Forms?
    let filter: RejectsMessage

    static func link(_ filter: RejectsMessage, before: Int64? = nil) -> String {
        URLText.link(["rejected"], ["entity": filter.entity, "job": filter.job, "before": before.map(String.init)])
    }

    static func link(_ id: Int64) -> HTML { "<a href=\"/rejected/\(id)\">\(id)</a>" }

    func html() async throws -> HTML {
        var message = filter
        message.limit = Self.rows
        let answer = try ModelValue(try await client.answer(to: message))
        let rejects = answer["rejects"]?.elements ?? []
        var table = Table("Rejected records, the newest first", ["record", "error", "job", "accepted", "user"])
        for reject in rejects {
            let errors = reject["errors"]?.elements ?? []
            let place = errors.first?["attribute"]?.string.map { " at \($0)" } ?? ""
            let error = "\(errors.first?["code"]?.string ?? "")\(place): \(errors.first?["message"]?.string ?? "")"
            let more: HTML = " <span class=m>and \(errors.count - 1) more</span>"
            table.add([
                "\(Self.link(Int64(reject["id"]?.int ?? 0)))<div class=m>\((reject["entity"]?.string ?? "").cut(to: 40))</div>",
                "<div class=text>\(error.cut(to: 200))\(more, if: errors.count > 1)</div>",
                JobLists.link(id: reject["job"]?.string ?? ""), JobLists.accepted(reject), JobLists.user(reject),
            ])
        }
        let last = rejects.last?["id"]?.int.map(Int64.init)
        let newest: HTML = "<a rel=first href=\"\(Self.link(filter))\">Newest</a>"
        let older: HTML = "<a rel=next href=\"\(Self.link(filter, before: last))\">Older</a>"
        let all: HTML = "<a href=\"/rejected\">All rejected records</a>"
        return """
            <h1>Rejected</h1>\(search)\(table.html(none: "No such record is kept."))<div class=pages>\(newest, if: filter.before != nil)\
            \(older, if: answer["more"]?.bool == true)\(all, if: isFiltered)</div>\(buttons ?? "", if: !rejects.isEmpty)<p class=m>Records that jobs \
            with <code>onInvalid</code> <code>skip</code> did not take. The server's own user and root see all, other users those of their \
            own jobs. A retry submits a record as it is: change the model first, or export the records and correct them \
            (<code>broker rejects export</code>).</p>
            """
    }

    private var isFiltered: Bool { filter.entity != nil || filter.job != nil }

    private var search: HTML {
        """
        <form action="/rejected"><label>Entity<input name=entity value="\(filter.entity ?? "")" spellcheck=false autocomplete=off></label>\
        <label>Job<input name=job value="\(filter.job ?? "")" spellcheck=false autocomplete=off></label><button>Show</button></form>
        """
    }

    private var buttons: HTML? {
        guard let forms else { return nil }
        let those = isFiltered ? "all of these" : "all"
        let buttons = RejectedChange.Action.allCases.map { action in
            forms.button(
                "\(action.title) \(those) …", action: "/rejected/\(action)", isBad: action == .drop,
                ["entity": filter.entity ?? "", "job": filter.job ?? ""])
        }
        return "<div class=pages>\(buttons)</div>"
    }
}

/// One record with its errors.
struct RejectedRecordPage {
    /// Characters of a record.
    private static let longest = 10_000

    let client: RemoteBroker
    let forms: Forms?
    let reject: Reject
    /// Of a retry.
    var error: BrokerError?

    func html() async -> HTML {
        var table = Table("Where it comes from", ["", ""])
        let entity = reject.operation.entity
        if !entity.isEmpty { table.add(["entity", EntityPage.link(entity)]) }
        if let stored = await stored { table.add(["stored object", stored]) }
        table.add(["job", "\(JobLists.link(id: reject.job)), sequence \(reject.sequence)"])
        table.add(["accepted", "\(Timestamp(seconds: Int(reject.acceptedAt / 1_000)).localText)"])
        table.add(["user", "\(UserName.text(of: reject.user))"])
        var errors = Table("Errors", ["place in the record", "error"])
        for error in reject.errors {
            let path = reject.path(of: error)
            let place: HTML = path.isEmpty ? "the record" : "<code>\(path.cut(to: 200))</code>"
            errors.add([place, "<div class=text>\(error.code.rawValue): \(error.message.cut(to: 500))</div>"])
        }
        let alert = error.map { error -> HTML in
            "<p class=alert role=alert>Rejected again: \("\(error)".cut(to: 1_000))</p>"
        }
        let buttons = RejectedChange.Action.allCases.compactMap { action in
            forms?.button(action.title, action: "/rejected/\(action)", isBad: action == .drop, ["id": "\(reject.id)"])
        }
        let record = tree.map { MarkedJSON($0, at: Set(reject.errors.map(reject.path(of:))), longest: Self.longest) }
        let beginning = String(decoding: reject.record.bytes.prefix(Self.longest), as: UTF8.self) + "…"
        let note: HTML = "<p class=m>Cut: <code>broker rejects show \(reject.id)</code> prints all of it.</p>"
        return """
            <h1>Rejected record \(reject.id)</h1>\(alert)\(errors.html(none: "None."))<pre class=scroll tabindex=0 role=region \
            aria-label="The record">\(record?.html ?? "\(beginning)")</pre>\(note, if: record?.isCut ?? true)<div class=pages>\(buttons)</div>\(table.html(none: ""))\
            <p><a href="/rejected">All rejected records</a></p>
            """
    }

    /// Nil for a record that would take much memory.
    private var tree: ModelValue? { reject.record.bytes.count > 1 << 20 ? nil : try? ModelValue(reject.record) }

    /// The object that has the key of the record.
    private var stored: HTML? {
        get async {
            guard ["process", "sync"].contains(reject.operation.word ?? "process"),
                let model = try? ShownModel(await client.model().json),
                let entity = model[reject.operation.entity], let key = tree.flatMap(entity.key),
                key.json.utf8.count < 1_000,
                (try? await client.object(key, of: entity)) != nil
            else { return nil }
            return EntityPage.link(entity.name, key)
        }
    }
}

/// What is done with all records of a filter: how many they are, and that it is done.
struct RejectedChange {
    enum Action: String, CaseIterable {
        case retry, drop

        var title: String { self == .retry ? "Retry" : "Drop" }
    }

    /// Records of one form, which has a minute.
    static let most = 500
    static let timeout = Duration.seconds(10)

    let client: RemoteBroker
    let forms: Forms
    let action: Action
    let filter: RejectsMessage
    /// Only those with higher numbers.
    let after: Int64

    func html(isConfirmed: Bool) async throws -> HTML {
        let ids = try await client.rejectNumbers(filter).filter { $0 > after }
        let back: HTML = "<p><a href=\"\(RejectedPage.link(filter))\">Rejected records</a></p>"
        guard isConfirmed else {
            let of = [filter.entity.map { "of \($0)" }, filter.job.map { "of job \($0)" }].compactMap(\.self)
            let those = ([Self.counted(ids.count)] + of).joined(separator: " ")
            let effect =
                action == .retry
                ? "Each is submitted as a job of its own, the oldest first, and dropped if it is taken. What later jobs wrote is replaced, unless the entity has a modified."
                : "They are deleted for good."
            return
                "<h1>\(action.title) \(those)?</h1><p>\(effect)</p>\(ids.last.map { confirm(action.title + " now", through: $0, after: after) })\(back)"
        }
        guard action == .retry else {
            return "<h1>\(Self.counted(try await client.drop(ids))) dropped</h1>\(back)"
        }
        var (taken, refused) = (0, Table("Rejected again, the first \(RejectedPage.rows)", ["record", "error"]))
        let tried = ids.prefix(Self.most)
        var refusedCount = 0
        try await client.forEachReject(tried) { reject in
            guard let error = try await client.retry(reject, timeout: Self.timeout) else { return taken += 1 }
            refusedCount += 1
            guard refusedCount <= RejectedPage.rows else { return }
            refused.add([RejectedPage.link(reject.id), "<div class=text>\("\(error)".cut(to: 300))</div>"])
        }
        let rest = ids.count - tried.count
        let more = tried.last.map { confirm("Retry the other \(ShortText.count(rest))", through: ids.last!, after: $0) }
        return """
            <h1>\(Self.counted(taken)) taken, \(ShortText.count(refusedCount)) rejected again</h1>\
            \(refused.html(none: ""), if: refusedCount > 0)\(more ?? "", if: rest > 0)\(back)
            """
    }

    private static func counted(_ count: Int) -> String {
        "\(ShortText.count(count)) rejected record\(count == 1 ? "" : "s")"
    }

    private func confirm(_ title: String, through: Int64, after: Int64) -> HTML {
        forms.button(
            title, action: "/rejected/\(action)", isBad: action == .drop,
            [
                "entity": filter.entity ?? "", "job": filter.job ?? "", "through": "\(through)", "after": "\(after)",
                "confirmed": "yes",
            ])
    }
}
