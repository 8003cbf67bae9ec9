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
    /// Of the one job of a trial: what a message may have.
    private static let bytesOfTrial = 12 << 20

    private let command: LoadCommand
    private let client: PageClient
    /// Where the records are, if that was found.
    private let root: RecordRoot?
    /// The mapping that reads them, where their entity alone does not.
    private let mapping: String?
    /// The key paths of the records, which the names of CSV may be.
    private let keys: [[String]]
    /// Nil when the server knows none.
    private let bookmarks: LoadBookmarks?
    /// The entity of jobs without records.
    private let entity: String
    private var stream: JobStream
    /// Pages that were read before, and the version of the first one that the store has.
    private var given: [PageRequest: Page] = [:]
    private var version: PageVersion?
    /// Every page must be the one of the sync before.
    private var isCheck = false
    /// Pages of known versions are not sent again.
    private var usesVersions = false
    private var visited: Set<PageRequest> = []
    private var pages = 0
    private var unchanged = 0
    private var total = 0
    private var chain = Chain()
    /// The id of the parts of a sync.
    private let partID = "broker-load-\(UInt64.random(in: 0...UInt64.max))"
    /// Why the last page of a list may not be the last one.
    private var doubts: [String] = []
    /// The records of the trial of a sync, which is one job.
    private var trial: GatheredRecords
    /// Nil unless the records' identity is a guess; then also those of all pages.
    private let guessed: GuessedIdentity?
    private let rejects: RejectsFile?
    private var observed: SampleInference?

    /// The pages of one list, as far as they were read.
    private struct Chain {
        var pages = 0
        var unchanged = 0
        var records = 0
        /// A hash of the records of the last page; nil for none.
        var digest: Int?
        var newest: NewestValue?
    }

    init(
        _ command: LoadCommand, _ broker: RemoteBroker, _ client: PageClient, _ bookmarks: LoadBookmarks?,
        entity: String, root: RecordRoot?, mapping: String?, guessed: GuessedIdentity?, _ rejects: RejectsFile?,
        keys: [[String]]
    ) {
        (self.guessed, self.rejects, self.keys) = (guessed, rejects, keys)
        trial = GatheredRecords(keepsTexts: rejects != nil)
        observed = guessed.map { SampleInference(entity: entity, givenKeys: $0.keys) }
        self.command = command
        self.client = client
        self.bookmarks = bookmarks
        self.entity = entity
        self.root = root
        self.mapping = mapping
        let tally = JobTally(rejects: rejects) { [reading = command.records.reading] code, status in
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

    /// Records had keys that only `_extra` has.
    var hasExtraKeys: Bool { tally.current.summary.warnings.count(of: .extraKey) > 0 }

    /// - Parameters:
    ///   - lists: the request for the first page of each.
    ///   - given: pages that were read, the first one of the first list unless it has that version.
    mutating func run(
        _ lists: [PageRequest], _ given: [PageRequest: Page], unless version: PageVersion?
    ) async throws {
        (self.given, self.version) = (given, version)
        do {
            try await loadAll(lists)
        } catch is JobStream.Stopped {
        } catch let error as PageError {
            tally.fail(error.description)
        } catch let error as CommandFailure {
            tally.fail(error.description, error.status)
        }
        var state = await stream.end()
        let isGivenUp = state.status != .success && state.status != .rejected
        if command.records.sync, isGivenUp, state.summary.jobs > 0 { state.fail("nothing was deleted", state.status) }
        state.summary.sayFailures()
        if command.json {
            try state.summary.write([("pages", pages), ("unchangedPages", unchanged)])
        } else {
            if state.summary.jobs > 0 { try state.summary.say(isTrial: command.dryRun) }
            try Program.say("\(Program.counted(pages, "page")) read, \(unchanged) of them unchanged")
        }
        if let rejects, !rejects.finish() { throw CommandFailure(.failed) }
        if state.status != .success { throw CommandFailure(state.status) }
    }

    /// Not every page is the one of the sync before, or the list has become shorter.
    private struct BeginAgain: Error {}

    private mutating func loadAll(_ lists: [PageRequest]) async throws {
        do {
            // A sync names the objects of all pages, unless every page is the one of the sync before.
            isCheck = command.records.sync && given[lists[0]]?.hasChanged == false
            usesVersions = isCheck || !command.records.sync && command.usesVersions
            try await loadLists(lists)
        } catch is BeginAgain {
            (visited, pages, unchanged, total, doubts) = ([], 0, 0, 0, [])
            (given, version, isCheck, usesVersions) = ([:], nil, false, false)
            try await loadLists(lists)
        }
    }

    private mutating func loadLists(_ lists: [PageRequest]) async throws {
        for (list, first) in zip(command.lists, lists) {
            let rejected = tally.current.summary.rejectedCount
            let doubtCount = doubts.count
            chain = Chain(newest: command.requests.since.map { NewestValue(of: $0.path) })
            let isWhole = try await loadList(first)
            if isWhole, doubts.count == doubtCount, tally.current.summary.rejectedCount == rejected,
                let newest = chain.newest?.json, let bookmarks
            {
                try await store(bookmarks.bookmark(ofNewest: newest, in: list), of: first)
            }
        }
        for doubt in doubts {
            guard !command.records.sync else { throw PageError(doubt) }
            Program.report("broker: \(doubt)", .warning)
        }
        if command.records.sync, !isCheck { try await deleteOthers() }
        if total == 0, unchanged == 0, !command.records.reading.empty, command.requests.since == nil {
            tally.fail("the pages hold no records; --empty allows that")
        }
    }

    /// - Returns: false when --max-pages ended it.
    private mutating func loadList(_ first: PageRequest) async throws -> Bool {
        var next: Link? = Link(PageRule.Next(first))
        while let link = next {
            let request = link.next.request
            let isNew = visited.insert(request).inserted
            let committed = usesVersions && isNew ? try await bookmarks?.page(for: request) : nil
            if isCheck, committed == nil { throw BeginAgain() }
            guard isNew else {
                throw PageError("A page names \(request) as the next one, which was read before; the load ends there.")
            }
            guard isCheck || pages < command.requests.pageLimit else {
                guard command.requests.maxPages != nil, !command.records.sync else {
                    throw PageError("There are more than \(pages) pages; --max-pages allows more.")
                }
                Program.report("broker: the pages from \(request) on are not loaded (--max-pages)")
                return false
            }
            let page: Page
            ReadingLine.draw("page \(pages + 1): \(request)")
            defer { TerminalLine.clear() }
            do {
                let known = given.removeValue(forKey: request).flatMap {
                    $0.hasChanged || committed?.version == version ? $0 : nil
                }
                page = if let known { known } else { try await client.page(for: request, unless: committed?.version) }
            } catch let error as PageError where link.next.isCounted && error.isMissing && !isCheck {
                if !command.requests.lastPage {
                    let option = command.requests.rule == .found ? "--page-parameter or --offset-parameter with " : ""
                    doubts.append("\(error) If no page follows the one before it, give \(option)--last-page.")
                }
                return true
            } catch let error as PageError where link.isStored && error.isRefusal {
                throw BeginAgain()
            }
            if isCheck, page.hasChanged { throw BeginAgain() }
            pages += 1
            chain.pages += 1
            next = try await load(page, link, committed)
        }
        return true
    }

    /// The next page, and whether it was stored with a page that has not changed since.
    private struct Link {
        let next: PageRule.Next
        var isStored = false

        init(_ next: PageRule.Next, isStored: Bool = false) { (self.next, self.isStored) = (next, isStored) }
    }

    private mutating func load(
        _ page: Page, _ link: Link, _ committed: LoadBookmarks.CommittedPage?
    ) async throws -> Link? {
        let request = link.next.request
        guard let body = page.body else {
            unchanged += 1
            chain.unchanged += 1
            chain.digest = nil
            let next = next(after: page, committed)
            if next == nil { addDoubt(FurtherPages(page, nil, root: nil), request, records: nil) }
            return next
        }
        var answer = try LoadedPage(request, page, body, of: command, root: root, keys: keys)
        do {
            try await checkProgress(answer, link.next)
            return try await submit(&answer, request).map { Link($0) }
        } catch let fault as InputFault {
            throw PageError("\(request)\(fault.place.map { ", \($0)" } ?? ""): \(fault.text)")
        }
    }

    /// The page after one that has not changed.
    private func next(after page: Page, _ committed: LoadBookmarks.CommittedPage?) -> Link? {
        if [.found, .link].contains(command.requests.rule), case .next(let url) = page.link {
            return Link(PageRule.Next(PageRequest(url)))
        }
        return committed?.next.map { Link(PageRule.Next(PageRequest($0)), isStored: true) }
    }

    /// A server that does not read the parameter which stands for the next page answers with the page before.
    private func checkProgress(_ answer: LoadedPage, _ next: PageRule.Next) async throws {
        guard let parameter = next.parameter, let before = chain.digest else { return }
        var digest = RecordDigest()
        try await answer.forEach { digest.add($0) }
        guard digest.count > 0, digest.value == before else { return }
        throw PageError(
            "\(next.request) has the same records as the page before it, so the server does not go on by \(parameter), and "
                + "not all pages are loaded. \(Self.remedy), or --last-page if no page follows.")
    }

    private static let remedy = "Say how: --next PATH, --cursor NAME=PATH, --page-parameter or --offset-parameter"

    /// Notes why a page without a next one may not be the last, and what to add.
    private mutating func addDoubt(
        _ further: FurtherPages, _ request: PageRequest, records: Int?, _ full: String? = nil
    ) {
        guard !command.requests.lastPage, let sign = further.sign(pages: chain.pages, records: records) ?? full
        else { return }
        doubts.append(
            "\(request) may not be the last page: \(sign). \(Self.remedy), or --last-page if no page follows.")
    }

    /// Stores the bookmark when all records of the page are, none was rejected, and the last page is certainly the last: these
    /// are reported again each time.
    private mutating func submit(_ loaded: inout LoadedPage, _ request: PageRequest) async throws -> PageRule.Next? {
        let rejected = tally.current.summary.rejectedCount
        try await checkIdentity(loaded)
        let deletion = bookmarks?.deletion(ofPageFor: request)
        let isTrial = command.dryRun && command.records.sync
        var gathered = isTrial ? trial : GatheredRecords(keepsTexts: rejects != nil)
        gathered.begin(request.description)
        let before = gathered.total
        var digest = RecordDigest()
        try await loaded.forEach { record in
            if gathered.isFull(
                before: record, records: isTrial ? .max : Self.recordsOfJob,
                bytes: isTrial ? Self.bytesOfTrial : Self.bytesOfJob)
            {
                guard !isTrial else {
                    throw PageError("The pages do not fit one job, and a sync in several jobs cannot be tried.")
                }
                try await send(&gathered, of: request, deletion)
            }
            digest.add(record)
            try chain.newest?.add(record)
            loaded.answer.last = record
            gathered.append(record)
        }
        let count = gathered.total - before
        // Each job is committed or fails by itself, so the last one waits for the others.
        try await stream.settle()
        total += count
        chain.records += count
        chain.digest = digest.count > 0 ? digest.value : nil
        // A page that has not changed has an unknown number of records.
        let known = chain.unchanged == 0 ? chain.records : nil
        (loaded.answer.count, loaded.answer.total) = (count, known)
        let next = try loaded.next()
        let doubtCount = doubts.count
        if next == nil {
            let full = command.requests.rule == .found ? loaded.answer.fullSign : nil
            addDoubt(loaded.answer.further, request, records: known, full)
        }
        if isTrial {
            trial = gathered
            return next
        }
        let sync = command.records.sync ? partID : nil
        let bookmark =
            doubts.count == doubtCount && command.requests.since == nil
            ? bookmarks?.bookmark(of: loaded.page, for: request, next: next?.request, sync: sync, root: root) : deletion
        let mayReject = command.records.reading.onInvalid == .skip
        if gathered.count > 0 {
            try await send(&gathered, of: request, mayReject ? deletion : bookmark)
            try await stream.settle()
        }
        let isStored = count > 0 && !mayReject
        let isComplete =
            tally.current.summary.rejectedCount == rejected && (total + unchanged > 0 || command.records.reading.empty)
        if let bookmark, !isStored, isComplete { try await store(bookmark, of: request) }
        return next
    }
}

// MARK: - Jobs

extension LoadRun {
    /// - Throws: when records contradict those of this page, or of an earlier one.
    private mutating func checkIdentity(_ loaded: LoadedPage) async throws {
        guard let guessed, var inference = observed else { return }
        let isMap = root?.isMap ?? false
        try await loaded.forEach { record in
            try record.parsed().withRoot { inference.observe($0, isMap: isMap) }
        }
        observed = inference
        try guessed.check(inference)
    }

    private mutating func send(_ gathered: inout GatheredRecords, of request: PageRequest, _ bookmark: Job.Bookmark?)
        async throws
    {
        if let fault = gathered.dropBroken() { throw fault }
        let (json, records) = gathered.take()
        var job = Job(operation(json, of: request.url), onInvalid: command.records.reading.onInvalid)
        job.unknownKeys = command.records.reading.unknown
        job.bookmark = bookmark
        job.isDryRun = command.dryRun
        try await stream.send(job, records, subject: request.description) { records.record(at: $0) ?? records.place }
    }

    /// Stores a bookmark by a job of its own, which changes nothing else.
    private mutating func store(_ bookmark: Job.Bookmark, of request: PageRequest) async throws {
        var job = Job(.process(json: "[]", as: entity))
        job.bookmark = bookmark
        do {
            try await stream.broker.process(job)
        } catch {
            tally.stop(by: error, subject: request.description)
            throw JobStream.Stopped()
        }
    }

    private func operation(_ json: RawJSON, of url: URL) -> Job.Operation {
        let reading = command.records.reading
        if command.records.sync, let entity = reading.entity {
            return sync(json, of: entity, isLast: false)
        }
        return reading.operation(json, inferredMapping: mapping, path: url.path())
    }

    // MARK: - Sync

    private func sync(_ json: RawJSON, of entity: String, isLast: Bool) -> Job.Operation {
        .sync(
            json: json, as: entity, where: command.records.selection.predicate, actions: .all,
            part: command.dryRun ? nil : Job.Operation.SyncPart(id: partID, isLast: isLast))
    }

    /// The last part, without records of its own.
    private mutating func deleteOthers() async throws {
        guard total > 0 || command.records.reading.empty else { return }
        if let fault = trial.dropBroken() { throw fault }
        let (json, records) = trial.take()
        var job = Job(
            sync(json, of: command.records.reading.entity ?? "", isLast: true),
            onInvalid: command.records.reading.onInvalid)
        job.isDryRun = command.dryRun
        job.maximumDeletions = command.records.maxDelete
        if tally.current.status == .success { job.bookmark = bookmarks?.bookmark(ofSync: partID) }
        try await stream.send(job, records, subject: command.lists[0].absoluteString) { records.record(at: $0) ?? .job }
        try await stream.settle()
    }
}

/// A hash of the records of a page, with their number.
private struct RecordDigest {
    private var hasher = Hasher()
    private(set) var count = 0

    var value: Int { hasher.finalize() }

    mutating func add(_ record: InputRecord) {
        count += 1
        record.json.withUnsafeBytes { hasher.combine(bytes: $0) }
    }
}

extension NewestValue {
    fileprivate mutating func add(_ record: InputRecord) throws {
        try record.parsed().withRoot { try add($0) }
    }
}

extension Page {
    /// The server has sent it, because it is another one than the store has.
    fileprivate var hasChanged: Bool { body != nil }

    /// Its field `Link` names the next page.
    fileprivate var hasLink: Bool { if case .next = link { true } else { false } }
}

/// A page with a body: its records, and what it says of the next one.
struct LoadedPage {
    let page: Page
    private let source: RecordSource
    private let rule: PageRule
    var answer: PageRule.Answer

    /// - Parameter isSample: it is not known yet where the records are.
    init(
        _ request: PageRequest, _ page: Page, _ body: UnnamedFile, of command: LoadCommand, root: RecordRoot?,
        keys: [[String]] = [], isSample: Bool = false
    ) throws(PageError) {
        guard page.mediaType != "text/html" || command.records.format.type != nil else {
            throw PageError(
                "\(request) is a page of HTML, not of records; --type says how to read it all the same.")
        }
        self.page = page
        let maximumBytes = command.requests.maxBytes.bytes
        source = command.records.source(of: page, body, root: root, maximumBytes: maximumBytes).withKeys(keys)
        rule = command.requests.rule
        var envelope: JSONDocument?
        if !page.hasContent || page.hasLink && [.found, .link].contains(rule) {
        } else if rule.needsEnvelope {
            do throws(PageError) {
                envelope = try body.firstValue(maximumBytes: maximumBytes)
            } catch {
                throw PageError("\(request): \(error), so no next page is found in it.")
            }
        } else if source.format == .json, isSample || source.root != nil || command.records.reading.entity == nil,
            source.root?.tokens.first.flatMap({ Int($0) }) != nil || !InputBeginning.isArray(file: body.path)
        {
            // Without a root, an entity's records are the whole of a page; mappings find theirs in it. The reader of the records
            // reports what is no JSON.
            envelope = try? body.firstValue(maximumBytes: maximumBytes)
        }
        answer = PageRule.Answer(request, page, envelope, FurtherPages(page, envelope, root: source.root?.tokens))
    }

    func forEach(_ take: (InputRecord) async throws -> Void) async throws {
        if page.hasContent { try await source.forEach(take) }
    }

    func next() throws(PageError) -> PageRule.Next? { try rule.next(after: answer) }
}
