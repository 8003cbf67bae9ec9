import Broker
package import BrokerClient
import BrokerModel
import BrokerWire
import Glibc

/// A server or a store as web pages, for one user on this machine.
package struct Console: Sendable {
    private let client: RemoteBroker
    private let hasServer: Bool
    private let frame: Frame
    private let forms: Forms?
    private let gate = Gate()
    private let watcher: Watcher
    private let feed: FeedLog
    private let broadcast = Broadcast()

    /// - Parameters:
    ///   - subject: the socket or the store, for the pages.
    ///   - watcher: asks for measurements and the feed; nil where a command has opened the store itself, so that there is nothing to
    ///     watch.
    ///   - mayWrite: pages have forms that change something.
    package init(_ client: RemoteBroker, subject: String, watcher: RemoteBroker?, mayWrite: Bool) {
        self.client = client
        hasServer = watcher != nil
        frame = Frame(subject: subject)
        forms = mayWrite ? Forms(token: gate.formToken) : nil
        self.watcher = Watcher(watcher ?? client)
        feed = FeedLog(watcher ?? client)
    }

    /// Serves until the task is cancelled.
    package func run(
        on address: ListenAddress, whenReady: @escaping @Sendable (_ address: String) async throws -> Void
    ) async throws {
        if hasServer { await watcher.sample() }
        try await withThrowingTaskGroup(of: Void.self) { group in
            if hasServer {
                group.addTask { await watch() }
                group.addTask { await feed.run { time(nil) } }
                group.addTask { await sendFeed() }
            }
            group.addTask {
                try await HTTPService(address) { await answer(to: $0) }.run { authority in
                    gate.open(authority)
                    try await whenReady(gate.address)
                }
            }
            defer { group.cancelAll() }
            try await group.next()
        }
    }

    /// One request to the server for all pages that show it.
    private func watch() async {
        while !Task.isCancelled {
            try? await Task.sleep(for: Watcher.interval)
            await watcher.sample()
            for topic in [Broadcast.Topic.now, .jobs, .clients] where await broadcast.hasListeners(topic) {
                await broadcast.send(content(topic), to: topic)
            }
        }
    }

    /// The changed feed, each second at most; the same one now and then, so that connections that are gone are noticed.
    private func sendFeed() async {
        var (sent, seconds) = (0, 0)
        while !Task.isCancelled {
            let version = await feed.version
            if version != sent || seconds >= 5, await broadcast.hasListeners(.feed) {
                (sent, seconds) = (version, 0)
                await broadcast.send(content(.feed), to: .feed)
            }
            seconds += 1
            try? await Task.sleep(for: .seconds(1))
        }
    }

    // MARK: - Requests

    func answer(to request: Request) async -> Answer {
        var answer = if let refusal = gate.answer(to: request) { refusal } else { await page(request) }
        answer.headers += Gate.headers
        return answer
    }

    private func page(_ request: Request) async -> Answer {
        if let file = Assets.answer(to: request.path) { return file }
        do {
            return try await request.method == .post ? changed(by: request) : read(request)
        } catch {
            let code = (error as? BrokerError)?.code
            let isLost = code == .cannotConnect || code == .connectionLost
            return frame.answer(
                "Error", at: Self.place(of: request) ?? .now, status: isLost ? 503 : 500,
                "<h1>\(isLost ? "The server does not answer" : "That did not work")</h1><p class=alert role=alert>\("\(error)")</p>"
            )
        }
    }

    private func read(_ request: Request) async throws -> Answer {
        let path = request.path
        switch path.first {
        case nil where hasServer: return frame.answer("Now", at: .now, live: "/live/now", await content(.now))
        case nil: return .redirection("/data")
        case "data": return try await data(Array(path.dropFirst()), request)
        case "jobs", "rejected", "clients", "feed", "live":
            guard hasServer else {
                return frame.answer(
                    "No server", at: Self.place(of: request) ?? .jobs,
                    """
                    <h1>There is no server</h1><p>Jobs, rejected records, clients and the feed are those of a server. Give <code>--socket</code> instead of \
                    <code>--store</code> to see them.</p>
                    """)
            }
        default: return notFound
        }
        switch (path[0], path.count) {
        case ("jobs", 1):
            let code = request["code"]
            return frame.answer("Jobs", at: .jobs, live: code == nil ? "/live/jobs" : nil, await jobs(code))
        case ("jobs", 2):
            return frame.answer(path[1], at: .jobs, try await JobPage(client: client, forms: forms, id: path[1]).html())
        case ("rejected", 1):
            let filter = Self.filter(request.query, before: request["before"])
            return frame.answer(
                "Rejected", at: .rejected, try await RejectedPage(client: client, forms: forms, filter: filter).html())
        case ("rejected", 2): return try await rejected(path[1]) { await record($0) }
        case ("clients", 1):
            return frame.answer("Clients", at: .clients, live: "/live/clients", await content(.clients))
        case ("feed", 1): return frame.answer("Feed", at: .feed, live: "/live/feed", await content(.feed))
        case ("live", 2): return await live(path[1])
        default: return notFound
        }
    }

    /// The page whose address the request has.
    private static func place(of request: Request) -> Frame.Place? {
        request.path.first.flatMap { first in Frame.Place.allCases.first { $0.link == "/" + first } }
    }

    private var notFound: Answer { frame.answer("Not found", at: nil, status: 404, "<h1>There is no such page</h1>") }

    private func live(_ name: String) async -> Answer {
        guard let topic = Broadcast.Topic(rawValue: name) else { return notFound }
        return Answer(.stream(await broadcast.listen(topic, first: content(topic))), "text/event-stream")
    }

    // MARK: - Pages

    /// What a live page shows now.
    private func content(_ topic: Broadcast.Topic) async -> HTML {
        switch topic {
        case .now: NowPage(reading: await watcher.reading, points: await watcher.points, forms: forms).html
        case .jobs: await jobs(nil)
        case .clients: await clients()
        case .feed: FeedPage(entries: await feed.entries, fault: await feed.fault).html
        }
    }

    private func jobs(_ code: String?) async -> HTML {
        await shown("Jobs") { try await JobsPage(client: client, forms: forms, code: code).html() }
    }

    private func clients() async -> HTML {
        await shown("Clients") {
            let clients = try ModelValue(try await client.perform(.clients))["clients"]?.elements ?? []
            return ClientsPage(clients: clients, forms: forms).html
        }
    }

    /// A live page goes on after an error.
    private func shown(_ title: String, _ content: () async throws -> HTML) async -> HTML {
        do { return try await content() } catch {
            return "<h1>\(title)</h1><p class=alert role=alert>\("\(error)")</p>"
        }
    }

    private static func filter(_ fields: [String: String], before: String?) -> RejectsMessage {
        var filter = RejectsMessage()
        let given = fields.filter { !$0.value.isEmpty }
        (filter.entity, filter.job) = (given["entity"], given["job"])
        filter.before = before.flatMap { Int64($0) }
        return filter
    }

    /// The page that `answer` makes of a rejected record.
    private func rejected(_ id: String, _ answer: (Reject) async throws -> Answer) async throws -> Answer {
        guard let id = Int64(id), let reject = try await client.rejects([id]).first else {
            return frame.answer(
                "Rejected", at: .rejected, status: 404,
                """
                <h1>There is no such rejected record</h1><p>It was dropped, or gave way to later ones.</p>\
                <p><a href="/rejected">All rejected records</a></p>
                """)
        }
        return try await answer(reject)
    }

    private func record(_ reject: Reject, _ error: BrokerError? = nil) async -> Answer {
        let page = RejectedRecordPage(client: client, forms: forms, reject: reject, error: error)
        return frame.answer("Rejected record \(reject.id)", at: .rejected, await page.html())
    }

    private func data(_ path: [String], _ request: Request) async throws -> Answer {
        let model = try ShownModel(try await client.model().json)
        guard let name = path.first else {
            return frame.answer("Data", at: .data, await ModelPage(client: client, model: model).html())
        }
        guard let entity = model[name] else { return notFound }
        if path.dropFirst() == ["object"] {
            let key = try Self.key(request["key"])
            let page = ObjectPage(client: client, model: model, entity: entity, key: key, forms: forms)
            return frame.answer("\(name) \(key.shown)", at: .data, try await page.html() ?? Self.missing(entity, key))
        }
        var selection = Selection(entity: entity, filter: request["where"], sort: request["sort"])
        if let relationship = request["of"].flatMap(entity.relationship) {
            selection.related = (relationship, try Self.key(request["key"]))
        }
        if path.dropFirst() == ["export"], let format = request["format"].flatMap(Export.init) {
            var answer = Answer(.stream(format.parts(selection, from: client)), format.contentType)
            answer.headers.append(("Content-Disposition", "attachment; filename=objects.\(format.rawValue)"))
            return answer
        }
        guard path.count == 1 else { return notFound }
        let offset = request["offset"].flatMap(Int.init).map { max(0, $0) } ?? 0
        return frame.answer(
            name, at: .data, try await EntityPage(client: client, selection: selection, offset: offset).html())
    }

    private static func missing(_ entity: ShownModel.Entity, _ key: ModelValue) -> HTML {
        "<h1>\(EntityPage.link(entity.name)) \(key.shown.cut(to: 120))</h1><p class=note>There is no such object, or it was deleted.</p>"
    }

    private static func key(_ text: String?) throws -> ModelValue { try ModelValue(RawJSON(text ?? "null")) }

    // MARK: - Changes

    private func changed(by request: Request) async throws -> Answer {
        guard let forms else {
            return frame.answer(
                "Refused", at: nil, status: 403,
                "<h1>This console only reads</h1><p>Start it with <code>--allow-write</code> to change something.</p>")
        }
        switch request.path {
        case ["pause"], ["resume"]:
            try await client.administer(request.path == ["pause"] ? .pause : .resume, timeout: .seconds(10))
            await watcher.sample()
            return .redirection("/")
        case ["cancel"]:
            let id = request.form["id"] ?? ""
            try await client.cancel(JobID(id), timeout: .seconds(10))
            return .redirection(URLText.link(["jobs", id]))
        case ["kick"]:
            guard let number = request.form["connection"].flatMap(Int.init) else { return notFound }
            _ = try await client.kick(KickMessage(connection: number))
            return .redirection("/clients")
        case ["delete"]:
            let model = try ShownModel(try await client.model().json)
            guard let entity = model[request.form["entity"] ?? ""] else { return notFound }
            let page = DeletionPage(
                client: client, forms: forms, entity: entity, key: try Self.key(request.form["key"]))
            return frame.answer(
                "Delete", at: .data, try await page.html(isConfirmed: request.form["confirmed"] == "yes"))
        case ["rejected", "retry"], ["rejected", "drop"]:
            return try await change(RejectedChange.Action(rawValue: request.path[1])!, request.form, forms)
        default: return notFound
        }
    }

    /// Of one rejected record, or of all of a filter.
    private func change(_ action: RejectedChange.Action, _ fields: [String: String], _ forms: Forms) async throws
        -> Answer
    {
        if let id = fields["id"] {
            return try await rejected(id) { reject in
                guard action == .retry else {
                    _ = try await client.drop([reject.id])
                    return .redirection("/rejected")
                }
                let error = try await client.retry(reject, timeout: RejectedChange.timeout)
                guard let error else {
                    return .redirection(URLText.link(["jobs", Reject.retryID(of: reject.id).text]))
                }
                return await record(reject, error)
            }
        }
        let through = fields["through"].flatMap { Int64($0) }
        let page = RejectedChange(
            client: client, forms: forms, action: action,
            filter: Self.filter(fields, before: through.map { "\($0 &+ 1)" }),
            after: fields["after"].flatMap { Int64($0) } ?? 0)
        return frame.answer(action.title, at: .rejected, try await page.html(isConfirmed: fields["confirmed"] == "yes"))
    }
}
