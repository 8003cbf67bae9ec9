import Broker
import BrokerClient
import BrokerCommandLine
import BrokerInput
import BrokerJSON
import BrokerModelSources
import BrokerPages
import Foundation

/// A load on its way: a page is requested when all jobs of the one before it are committed.
struct LoadRun {
    /// Records and bytes of a job, as `broker submit` sends them.
    private static let recordsOfJob = 5_000
    private static let bytesOfJob = 4 << 20
    /// Jobs of a page that are in flight.
    private static let jobsInFlight = 4

    private let command: LoadCommand
    private let client: PageClient
    private let inferred: InferredModel?
    /// Nil when the server knows none.
    private let bookmarks: LoadBookmarks?
    /// The entity of jobs without records.
    private let entity: String
    private var stream: JobStream
    private var visited: Set<String> = []
    private var pages = 0
    private var unchanged = 0
    private var total = 0
    /// The id of the parts of a sync.
    private let partID = "broker-load-\(UInt64.random(in: 0...UInt64.max))"
    /// Why the last page may not be the last one.
    private var doubt: String?
    /// The records of all pages, where their identity is a guess.
    private var observed: SampleInference?

    init(
        _ command: LoadCommand, _ broker: BrokerClient, _ client: PageClient, _ bookmarks: LoadBookmarks?,
        entity: String, _ inferred: InferredModel?
    ) {
        self.command = command
        self.client = client
        self.bookmarks = bookmarks
        self.entity = entity
        self.inferred = inferred
        observed = inferred?.guessed.map { SampleInference(entity: entity, givenKeys: $0.keys) }
        let tally = JobTally { [reading = command.records.reading] code, status in
            switch code {
            case .tooManyDeletions?: " --max-delete is the limit."
            case .unmappable? where reading.entity == nil && reading.mapping == nil && reading.path == nil:
                " Or name the records' entity by --entity."
            case _ where status == .cannotConnect: "; \(LoadCommand.continuation)"
            default: ""
            }
        }
        stream = JobStream(broker, tally, maximumInFlight: Self.jobsInFlight)
    }

    private var tally: JobTally { stream.tally }

    mutating func run(_ first: Page, unless version: PageVersion?) async throws {
        do {
            try await loadAll(first, unless: version)
        } catch is JobStream.Stopped {
        } catch let error as PageError {
            tally.fail(error.description)
        } catch let failure as CommandFailure {
            tally.fail(failure.description, failure.status)
        }
        var state = await stream.end()
        let isGivenUp = state.status != .success && state.status != .rejected
        if command.records.sync, isGivenUp, state.summary.jobs > 0 { state.fail("nothing was deleted", state.status) }
        state.summary.sayFailures()
        if command.json {
            try state.summary.write([("pages", pages), ("unchangedPages", unchanged)])
        } else {
            if state.summary.jobs > 0 { try state.summary.say() }
            try Program.say("\(Program.counted(pages, "page")) read, \(unchanged) of them unchanged")
        }
        if state.status != .success { throw CommandFailure(state.status) }
    }

    /// Not every page is the one of the sync before, or the list has become shorter.
    private struct BeginAgain: Error {}

    private mutating func loadAll(_ first: Page, unless version: PageVersion?) async throws {
        do {
            // A sync names the objects of all pages, unless every page is the one of the sync before.
            let isCheck = command.records.sync && first.body == nil
            try await loadPages(
                first, unless: version, isCheck: isCheck,
                usesVersions: isCheck || !command.records.sync && !command.requests.fresh)
        } catch is BeginAgain {
            (visited, pages, unchanged, total) = ([], 0, 0, 0)
            try await loadPages(nil, unless: nil, isCheck: false, usesVersions: false)
        }
    }

    /// - Parameter isCheck: every page must be the one of the sync before.
    private mutating func loadPages(
        _ first: Page?, unless version: PageVersion?, isCheck: Bool, usesVersions: Bool
    ) async throws {
        var first = first
        let isSync = command.records.sync
        var next: Link? = Link(command.url)
        while let link = next {
            let url = link.url
            let isNew = visited.insert(url.absoluteString).inserted
            let committed = usesVersions && isNew ? try await bookmarks?.page(at: url) : nil
            if isCheck, committed == nil { throw BeginAgain() }
            guard isNew else {
                throw PageError(
                    "A page names \(url.absoluteString) as the next one, which was read before; the load ends there.")
            }
            guard isCheck || pages < command.requests.pageLimit else {
                guard command.requests.maxPages != nil, !isSync else {
                    throw PageError("There are more than \(pages) pages; --max-pages allows more.")
                }
                Program.report("broker: the pages from \(url.absoluteString) on are not loaded (--max-pages)")
                return
            }
            let page: Page
            do {
                let given = first.flatMap { $0.body != nil || committed?.version == version ? $0 : nil }
                page = if let given { given } else { try await client.page(at: url, unless: committed?.version) }
            } catch let error as PageError where link.isStored && error.isRefusal {
                throw BeginAgain()
            }
            if isCheck, page.body != nil { throw BeginAgain() }
            first = nil
            pages += 1
            next = try await load(page, at: url, committed)
        }
        if let doubt {
            guard !isSync else { throw PageError(doubt) }
            Program.report("broker: \(doubt)", .warning)
        }
        if isSync, !isCheck { try await deleteOthers() }
        if total == 0, unchanged == 0, !command.records.reading.empty {
            tally.fail("the pages hold no records; --empty allows that")
        }
    }

    /// The URL of the next page, and whether it was stored with a page that has not changed since.
    private struct Link {
        let url: URL
        let isStored: Bool

        init(_ url: URL, isStored: Bool = false) { (self.url, self.isStored) = (url, isStored) }
    }

    private mutating func load(
        _ page: Page, at url: URL, _ committed: LoadBookmarks.CommittedPage?
    ) async throws -> Link? {
        guard let body = page.body else {
            unchanged += 1
            let next = next(after: page, committed)
            doubt = next == nil ? reason(FurtherPages(page, nil, root: nil), url, records: nil) : nil
            return next
        }
        let answer = try LoadedPage(page, body, of: command, root: inferred?.root)
        do {
            try await submit(answer, url)
        } catch let fault as InputFault {
            throw PageError("\(url.absoluteString)\(fault.place.map { ", \($0)" } ?? ""): \(fault.text)")
        }
        return answer.next.map { Link($0) }
    }

    /// The page after one that has not changed.
    private func next(after page: Page, _ committed: LoadBookmarks.CommittedPage?) -> Link? {
        if command.requests.next == nil, case .next(let url) = page.link { return Link(url) }
        return committed?.next.map { Link($0, isStored: true) }
    }

    /// Why a page without a next one may not be the last, and what to add; nil when it certainly is.
    private func reason(_ further: FurtherPages, _ url: URL, records: Int?) -> String? {
        guard !command.requests.lastPage, let sign = further.sign(pages: pages, records: records) else { return nil }
        return
            "\(url.absoluteString) may not be the last page: \(sign); give --next PATH, where the URL or cursor of the "
            + "next page is, or --last-page if no page follows"
    }

    /// Stores the bookmark when all records of the page are, none was rejected, and the last page is certainly the last: these
    /// are reported again each time.
    private mutating func submit(_ answer: LoadedPage, _ url: URL) async throws {
        let rejected = tally.current.summary.rejectedCount
        let deletion = bookmarks?.deletion(ofPageAt: url)
        try await checkIdentity(answer.source)
        var gathered = GatheredRecords()
        gathered.begin(url.absoluteString)
        try await answer.source.forEach { record in
            if gathered.isFull(before: record, records: Self.recordsOfJob, bytes: Self.bytesOfJob) {
                try await send(&gathered, of: url, deletion)
            }
            gathered.append(record)
        }
        let count = gathered.total
        // Each job is committed or fails by itself, so the last one waits for the others.
        try await stream.settle()
        total += count
        // A page that has not changed has an unknown number of records.
        doubt = answer.further.flatMap { reason($0, url, records: unchanged == 0 ? total : nil) }
        let sync = command.records.sync ? partID : nil
        let bookmark =
            doubt == nil ? bookmarks?.bookmark(of: answer.page, at: url, next: answer.next, sync: sync) : deletion
        let mayReject = command.records.reading.onInvalid == .skip
        if gathered.count > 0 {
            try await send(&gathered, of: url, mayReject ? deletion : bookmark)
            try await stream.settle()
        }
        let isStored = count > 0 && !mayReject
        let isComplete =
            tally.current.summary.rejectedCount == rejected && (total + unchanged > 0 || command.records.reading.empty)
        if let bookmark, !isStored, isComplete { try await store(bookmark, of: url) }
    }
}

// MARK: - Jobs

extension LoadRun {
    /// - Throws: when records contradict those of this page, or of an earlier one.
    private mutating func checkIdentity(_ source: RecordSource) async throws {
        guard let guessed = inferred?.guessed, var inference = observed else { return }
        try await source.forEach { record in
            let document = try record.parsed()
            withExtendedLifetime(document) { inference.observe(document.root, isMap: source.root?.isMap ?? false) }
        }
        observed = inference
        try guessed.check(inference)
    }

    private mutating func send(_ gathered: inout GatheredRecords, of url: URL, _ bookmark: Job.Bookmark?) async throws {
        if let fault = gathered.dropBroken() { throw fault }
        let (json, records) = gathered.take()
        var job = Job(operation(json, of: url), onInvalid: command.records.reading.onInvalid)
        job.unknownKeys = command.records.reading.unknown
        job.bookmark = bookmark
        try await stream.send(job, records, subject: url.absoluteString) { records.record(at: $0) ?? records.place }
    }

    /// Stores a bookmark by a job of its own, which changes nothing else.
    private mutating func store(_ bookmark: Job.Bookmark, of url: URL) async throws {
        var job = Job(.process(json: "[]", as: entity))
        job.bookmark = bookmark
        do {
            try await stream.broker.process(job)
        } catch {
            tally.stop(by: error, subject: url.absoluteString)
            throw JobStream.Stopped()
        }
    }

    private func operation(_ json: RawJSON, of url: URL) -> Job.Operation {
        let reading = command.records.reading
        if command.records.sync, let entity = reading.entity {
            return Job.Operation(entity: entity, sync(json, isLast: false))
        }
        return reading.operation(json, inferredMapping: inferred?.mapping, path: url.path())
    }

    // MARK: - Sync

    private func sync(_ json: RawJSON, isLast: Bool) -> Job.Operation.Action {
        .sync(
            json, where: command.records.selection.predicate, actions: .all,
            part: Job.Operation.SyncPart(id: partID, isLast: isLast))
    }

    /// The last part, without records of its own.
    private mutating func deleteOthers() async throws {
        guard total > 0 || command.records.reading.empty else { return }
        var job = Job(
            Job.Operation(entity: command.records.reading.entity ?? "", sync(RawJSON("[]"), isLast: true)),
            onInvalid: command.records.reading.onInvalid)
        job.maximumDeletions = command.records.maxDelete
        if tally.current.status == .success { job.bookmark = bookmarks?.bookmark(ofSync: partID) }
        try await stream.send(job, subject: command.url.absoluteString) { _ in .job }
        try await stream.settle()
    }
}

/// A page with a body: its records, and what it says of the next one.
struct LoadedPage {
    let page: Page
    let source: RecordSource
    let next: URL?
    /// Nil when there is a next page.
    let further: FurtherPages?

    init(_ page: Page, _ body: UnnamedFile, of command: LoadCommand, root: RecordRoot?) throws(PageError) {
        guard page.mediaType != "text/html" || command.records.format.type != nil else {
            throw PageError(
                "\(page.url.absoluteString) is a page of HTML, not of records; --type says how to read it all the same."
            )
        }
        self.page = page
        let maximumBytes = command.requests.maxBytes.bytes
        source = command.records.source(of: page, body, root: root, maximumBytes: maximumBytes)
        var envelope: JSONDocument?
        if let path = command.requests.next {
            let found: JSONDocument
            do throws(PageError) {
                found = try body.firstValue(maximumBytes: maximumBytes)
            } catch {
                throw PageError("\(page.url.absoluteString): \(error), so --next finds no next page in it.")
            }
            (envelope, next) = (found, try path.url(in: found, of: page.url))
        } else {
            if case .next(let url) = page.link { next = url } else { next = nil }
            // Without a root, an entity's records are the whole of a page; mappings find theirs in it.
            if next == nil, source.format == .json, source.root != nil || command.records.reading.entity == nil,
                !InputBeginning.isArray(file: body.path)
            {
                // The reader of the records reports what is no JSON.
                envelope = try? body.firstValue(maximumBytes: maximumBytes)
            }
        }
        further = next == nil ? FurtherPages(page, envelope, root: source.root?.tokens) : nil
    }
}
