import Broker
import BrokerClient
import BrokerCommandLine
import BrokerInput
import BrokerJSON
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
    private let broker: BrokerClient
    private let client: PageClient
    private let mapping: String?
    private let root: RecordRoot?
    private var memory: LoadMemory
    private var summary = SubmissionSummary()
    private var status = ExitStatus.success
    private var visited: Set<String> = []
    private var pages = 0
    private var unchanged = 0
    private var total = 0
    /// The id of the parts of a sync.
    private let partID = "broker-load-\(UInt64.random(in: 0...UInt64.max))"
    private var sent: [SentJob] = []
    private var newest: LoadMemory.CommittedJob?

    private struct SentJob {
        let job: SubmittedJob
        let count: Int
        let lines: [Int]
        /// The number of the first record, counted from 1.
        let first: Int
    }

    /// The run has the reason.
    private struct Stopped: Error {}

    init(
        _ command: LoadCommand, _ broker: BrokerClient, _ client: PageClient, _ memory: LoadMemory, mapping: String?,
        root: RecordRoot?
    ) {
        self.command = command
        self.broker = broker
        self.client = client
        self.memory = memory
        self.mapping = mapping
        self.root = root
    }

    mutating func run(_ first: Page) async throws {
        do {
            try await loadAll(first)
        } catch is Stopped {
        } catch let error as PageError {
            fail(error.description)
        }
        if status != .success, command.records.sync {
            // Pages that a later part would have named are not, so the next sync begins with all of them.
            memory.forget()
            if status != .rejected, summary.jobs > 0 { fail("nothing was deleted", status) }
        }
        memory.save()
        try end()
    }

    private mutating func loadAll(_ first: Page) async throws {
        var first = Optional(first)
        if command.records.sync {
            guard let page = first, page.body == nil else { return try await loadPages(first) }
            if try await isUnchanged(after: page) { return }
            // The objects of all pages must be named again.
            memory.forget()
            memory.save()
            first = nil
        }
        try await loadPages(first)
    }

    private mutating func loadPages(_ first: Page?) async throws {
        var first = first
        var next: URL? = command.url
        while let url = next {
            guard visited.insert(url.absoluteString).inserted else {
                throw PageError(
                    "A page names \(url.absoluteString) as the next one, which was read before; the load ends there.")
            }
            guard pages < command.requests.pageLimit else {
                guard command.requests.maxPages != nil, !command.records.sync else {
                    throw PageError("There are more than \(pages) pages; --max-pages allows more.")
                }
                Program.complain("broker: the pages from \(url.absoluteString) on are not loaded (--max-pages)")
                return
            }
            let page: Page
            if let given = first {
                page = given
            } else {
                // A sync names the objects of all pages.
                page = try await client.page(at: url, unless: command.records.sync ? nil : memory.version(of: url))
            }
            first = nil
            pages += 1
            if page.body != nil, memory.drop(url) { memory.save() }
            let rejected = summary.rejectedCount
            next = try await load(page, at: url)
            // The records that were rejected are reported again each time.
            if summary.rejectedCount == rejected { memory.note(page, at: url, next: next, job: newest) }
        }
        memory.retain(visited)
        if command.records.sync { try await deleteOthers() }
        if total == 0, unchanged == 0, !command.records.empty { fail("the pages hold no records; --empty allows that") }
    }

    /// - Returns: the next page.
    private mutating func load(_ page: Page, at url: URL) async throws -> URL? {
        guard let body = page.body else {
            unchanged += 1
            return page.next ?? memory.next(after: url)
        }
        guard page.mediaType != "text/html" || command.records.format.type != nil else {
            throw PageError(
                "\(url.absoluteString) is a page of HTML, not of records; --type says how to read it all the same.")
        }
        let next = try command.requests.next.map { try $0.url(in: body, of: page.url) } ?? page.next
        let source = command.records.source(of: page, body, root: root)
        var gathered = GatheredRecords()
        var count = 0
        do {
            try await source.forEach { record, _ in
                if gathered.count == Self.recordsOfJob
                    || gathered.count > 0 && gathered.json.count + record.json.count > Self.bytesOfJob
                {
                    try await send(&gathered, upTo: count, of: url)
                }
                gathered.append(record)
                count += 1
            }
            if gathered.count > 0 { try await send(&gathered, upTo: count, of: url) }
            while !sent.isEmpty { try await settle(url) }
        } catch let fault as InputFault {
            throw PageError("\(url.absoluteString)\(fault.place.map { ", \($0)" } ?? ""): \(fault.text)")
        }
        total += count
        return next
    }
}

// MARK: - Jobs

extension LoadRun {
    private mutating func send(_ gathered: inout GatheredRecords, upTo last: Int, of url: URL) async throws {
        if let fault = gathered.dropBroken() { throw fault }
        while sent.count >= Self.jobsInFlight { try await settle(url) }
        let (count, lines) = (gathered.count, gathered.lines)
        var job = Job(operation(gathered.take(), of: url))
        job.onInvalid = command.records.onInvalid
        job.unknownKeys = command.records.unknown
        try await enqueue(job, count: count, lines: lines, first: last - count + 1, url)
    }

    private mutating func enqueue(_ job: Job, count: Int, lines: [Int], first: Int, _ url: URL) async throws {
        do {
            sent.append(SentJob(job: try await broker.enqueue(job), count: count, lines: lines, first: first))
        } catch {
            fail("\(url.absoluteString): \(error)", CommandFailure(error).status)
            throw Stopped()
        }
    }

    /// Waits for the end of the oldest job.
    private mutating func settle(_ url: URL) async throws {
        let oldest = sent.removeFirst()
        func place(_ path: String?) -> JobPlace {
            guard oldest.count > 0 else { return .job }
            let tokens = path?.split(separator: "/").drop { $0 != "json" }.prefix(2) ?? []
            guard tokens.count == 2, let index = tokens.last.flatMap({ Int($0) }), oldest.lines.indices.contains(index)
            else { return .records(oldest.first...oldest.first + oldest.count - 1, of: url.absoluteString) }
            let record = oldest.first + index
            return .records(record...record, of: url.absoluteString, line: oldest.lines[index])
        }
        do {
            let completion = try await oldest.job.completion
            summary.add(completion, records: oldest.count, at: place)
            newest = LoadMemory.CommittedJob(id: oldest.job.id.text, sequence: completion.sequence)
            if summary.rejectedCount > 0, status == .success { status = .rejected }
        } catch {
            let known = error as? BrokerError
            let place = place(known?.fault?.path)
            fail("\(place.text): \(error)", CommandFailure(error).status, known?.code, at: place)
            throw Stopped()
        }
    }

    private func operation(_ json: [UInt8], of url: URL) -> Job.Operation {
        let records = command.records
        if records.sync, let entity = records.entity {
            return Job.Operation(entity: entity, sync(RawJSON(json), isLast: false))
        }
        if let mapping = mapping ?? records.mapping { return .map(json: json, by: .mapping(mapping)) }
        if let entity = records.entity { return .process(json: json, as: entity) }
        return .map(json: json, by: .path(records.path ?? url.path()))
    }

    // MARK: - Sync

    private func sync(_ json: RawJSON, isLast: Bool) -> Job.Operation.Action {
        .sync(
            json, where: command.records.selection.predicate, actions: .all,
            part: Job.Operation.SyncPart(id: partID, isLast: isLast))
    }

    /// The last part, without records of its own.
    private mutating func deleteOthers() async throws {
        guard total > 0 || command.records.empty else { return }
        let operation = Job.Operation(entity: command.records.entity ?? "", sync(RawJSON("[]"), isLast: true))
        var job = Job(operation)
        job.onInvalid = command.records.onInvalid
        job.maximumDeletions = command.records.maxDelete
        try await enqueue(job, count: 0, lines: [], first: 0, command.url)
        try await settle(command.url)
        // The pages are as they were when the objects of all others were deleted.
        if let newest { memory.note(newest) }
    }

    /// Whether every page is the one of the sync before.
    private mutating func isUnchanged(after first: Page) async throws -> Bool {
        var seen: Set<String> = [command.url.absoluteString]
        var next = first.next ?? memory.next(after: command.url)
        while let url = next {
            guard seen.insert(url.absoluteString).inserted, let version = memory.version(of: url) else { return false }
            let page = try await client.page(at: url, unless: version)
            guard page.body == nil else { return false }
            next = page.next ?? memory.next(after: url)
        }
        (pages, unchanged) = (seen.count, seen.count)
        return true
    }

    // MARK: - The end

    private mutating func fail(
        _ message: String, _ status: ExitStatus = .failed, _ code: BrokerError.Code? = nil, at place: JobPlace = .job
    ) {
        summary.fail(message, code, at: place, order: (0, summary.failures.count))
        self.status = status
    }

    private func end() throws {
        for failure in summary.failures { Program.complain("broker: \(failure.message)", .error) }
        if command.json {
            var writer = JSONWriter()
            writer.object { writer in
                writer.key("pages")
                writer.integer(pages)
                writer.key("unchangedPages")
                writer.integer(unchanged)
                summary.writeMembers(to: &writer)
            }
            try Program.write(String(decoding: writer.bytes, as: UTF8.self))
        } else {
            if summary.jobs > 0 { try summary.say() }
            try Program.say("\(pages) page\(pages == 1 ? "" : "s") read, \(unchanged) of them unchanged")
        }
        if status != .success { throw CommandFailure(status) }
    }
}
