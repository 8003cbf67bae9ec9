internal import BrokerModel
internal import BrokerStaging
internal import BrokerStore

/// The loop of the thread that reads the feed. Only it touches the connection, which has no read transaction open between
/// two parts.
struct FeedLoop {
    private enum Work {
        case read(Int, FeedThread.Follower)
        case stop([FeedThread.Follower])
    }

    /// A follower is sent how far nothing concerned it at most once for so many sequences.
    private static let silentSequences: Int64 = 1_000

    private let state: Monitor<FeedThread.State>
    private let gate: ReaderGate
    private let files: OpenedFiles
    /// Opened for the first subscription.
    private var reader: FeedReader?

    init(_ state: Monitor<FeedThread.State>, _ gate: ReaderGate, _ files: OpenedFiles) {
        self.state = state
        self.gate = gate
        self.files = files
    }

    mutating func run() {
        while true {
            switch nextWork() {
            case .read(let number, let follower): read(number, follower)
            case .stop(let followers):
                for follower in followers { follower.subscription.report(.stopped) }
                return
            }
        }
    }

    private func nextWork() -> Work {
        state.wait { state in
            if state.isStopping { return .stop(Array(state.followers.values)) }
            guard let number = state.table.next(), let follower = state.followers[number] else { return nil }
            return .read(number, follower)
        }
    }

    private mutating func read(_ number: Int, _ follower: FeedThread.Follower) {
        guard follower.subscription.hasRoom() else {
            state.withLock { $0.table.postpone(number) }
            return follower.subscription.report(.commits([]))
        }
        do throws(Fault) {
            try readPart(number, follower)
        } catch {
            state.withLock { $0.end(number) }
            follower.subscription.report(.failed(error))
        }
    }

    private mutating func readPart(_ number: Int, _ follower: FeedThread.Follower) throws(Fault) {
        var follower = follower
        let (plan, failure, read) = state.withLock { ($0.plan, $0.failure, $0.table.position(of: number)) }
        if let failure { throw Fault(failure) }
        let position: Int64
        if let read { position = read } else { position = try open(&follower) }
        if follower.plan !== plan {
            follower.selection = try follower.subscription.selection(in: plan)
            follower.plan = plan
        }
        guard let selection = follower.selection else { return }
        let part = try reading { reader throws(StoreError) in try reader.part(after: position, selection) }
        guard let part else {
            throw .gone(position, try reading { reader throws(StoreError) in try reader.bounds() })
        }
        var commits = part.commits
        if commits.isEmpty, part.position - follower.reported >= Self.silentSequences {
            commits = [FeedCommit(nothingThrough: part.position)]
        }
        follower.reported = commits.last?.sequence ?? follower.reported
        state.withLock { state in
            if state.followers[number] != nil { state.followers[number] = follower }
            state.table.read(number, through: part.position, isLast: part.isLast, isSent: !commits.isEmpty)
        }
        if !commits.isEmpty { follower.subscription.report(.commits(commits)) }
    }

    /// - Returns: where the subscription begins.
    private mutating func open(_ follower: inout FeedThread.Follower) throws(Fault) -> Int64 {
        // An unknown entity comes before a position that is gone.
        let plan = state.withLock { $0.plan }
        follower.selection = try follower.subscription.selection(in: plan)
        follower.plan = plan
        let bounds = try reading { reader throws(StoreError) in try reader.bounds() }
        let after = follower.subscription.after ?? bounds.newest
        guard (bounds.oldest...bounds.newest).contains(after) else { throw .gone(after, bounds) }
        follower.reported = after
        follower.subscription.report(.opened(after: after, oldest: bounds.oldest))
        return after
    }

    /// A short read, for which the writer may wait.
    private mutating func reading<Result>(
        _ body: (FeedReader) throws(StoreError) -> Result
    ) throws(Fault) -> Result {
        do throws(StoreError) {
            let reader: FeedReader
            if let open = self.reader { reader = open } else { reader = try FeedReader(files) }
            self.reader = reader
            return try gate.read(.brief) { _ in Swift.Result { () throws(StoreError) in try body(reader) } }.get()
        } catch {
            // A fault of the connection may end with it.
            reader = nil
            throw Fault(error)
        }
    }
}

extension FeedSubscription {
    /// - Throws: `unknownEntity`.
    fileprivate func selection(in plan: StagingPlan) throws(Fault) -> FeedSelection {
        let model = plan.model
        guard let entities else {
            return FeedSelection(entities: model.entities.map(\.name), wantsKeys: wantsKeys, asker: asker)
        }
        var names: Set<String> = []
        for (position, name) in entities.enumerated() {
            guard let entity = model.index(ofEntity: name) else {
                let ending = NearMiss.ending(name, among: model.entities.lazy.map(\.name))
                throw Fault(
                    .unknownEntity,
                    "The model has no entity \(name.quotedBriefly)\(ending) See `entities` of `welcome`.",
                    path: "/entities/\(position)")
            }
            for kind in model.subentities(of: entity) { names.insert(model.entities[kind].name) }
        }
        return FeedSelection(entities: names, wantsKeys: wantsKeys, asker: asker)
    }
}

extension Fault {
    fileprivate init(_ error: StoreError) { self.init(error.faultCode, error.message) }

    fileprivate static func gone(_ after: Int64, _ bounds: FeedReader.Bounds) -> Fault {
        let why =
            after > bounds.newest
            ? "This store has no job \(after), so it is another one, or an older copy."
            : "The store has forgotten jobs after \(after)."
        var fault = Fault(
            .gone,
            "\(why) Read the objects again: subscribe from now on, and then fetch them.", path: "/after")
        fault.oldest = bounds.oldest
        return fault
    }
}
