/// Who of a job's objects may have which unique values: only what the job leaves behind must be unique, so objects may
/// exchange values; of two that claim one value the later is left out; and what is left out has no effect, so that it
/// costs nobody else a place. All lists of all entities are judged together. A pure value: what the store holds is told
/// from outside.
///
/// ```
///              its value is held for good, or who stays claims it earlier ─▶ out ─▶ holds what it had, claims nothing
/// undecided ──┤                                                              │
///              first to claim, what it takes is given up, nothing around    └▶ what is nested in it: open
///              it is left out ─▶ in ─▶ the other claimants are out
/// ```
///
/// Invariants
///  1. What is decided hangs on nothing that is undecided: who is out would be so whatever becomes of the others.
///  2. An object is `open` when one is out whose record held what this one claims: what it claims without that only
///     another staging tells, and so it is with those that hang on it.
///  3. Objects that wait for each other alone (they exchange values) are in, together.
///  4. Where claims go round in a circle, one goes that would lose if it were in, because of what hangs on it; else each is
///     out if another is in, and the one goes whose claim is the first in the text to be lost. Nothing is decided so as
///     long as another staging may break the circle.
///  5. Each claim and each claimant is looked at a bounded number of times, but for (3) and (4), which may look at all
///     objects: after ``maximumSearches`` of those the rest is left to another staging.
struct UniqueClaims {
    /// What one staged object has and wants of one list.
    struct Claim {
        let list: Int
        /// Where the record begins that says so.
        let claimedAt: UInt32
        /// Nil for an object that is new.
        let old: StoredKey?
        let new: StoredKey
        /// Objects, by their places in `objects`, that the claim is nested in.
        let within: [Int]

        /// A value with NULL in it is never the same as another.
        var isMoving: Bool { old != new && !new.hasNull }

        /// Leaves the value that it had, for another one or for NULL.
        var isGivingUp: Bool { if let old { old != new && !old.hasNull } else { false } }

        /// Keeps the value that it had, unless what it is nested in is left out.
        var isKeeping: Bool { old == new && !new.hasNull && !within.isEmpty }
    }

    /// Who has a value in the store.
    enum Holder {
        case nobody
        /// An object that does not give it up.
        case stranger
        /// An object that claims another value, or none, or that may do so in another staging.
        case leaving(object: Int)
    }

    static let maximumSearches = 32

    private enum State { case undecided, isIn, isOut, isOpen }

    /// A value that is claimed.
    private struct Contest {
        let list: Int
        /// Claims, in the order of the text.
        var claimants: [Int] = []
        /// The first of the claimants whose object is not out.
        var first = 0
        var isHeld = false
    }

    private struct Claimant {
        let object: Int
        /// Nil of a claim on nothing new.
        var contest: Int?
        /// Among the claimants of the contest.
        var position = 0
        let claimedAt: UInt32
        /// Objects around it that are not in.
        var awaited: Int
    }

    /// Something that hangs on an object: a claim nested in it, or one on a value that it gives up.
    private struct Dependent {
        let claim: Int
        let isNested: Bool
    }

    private var states: [State]
    private var contests: [Contest] = []
    private var claims: [Claimant] = []
    /// By object.
    private var claimsOf: [[Int]]
    private var dependents: [[Dependent]]
    /// By object, those that it is a dependent of.
    private var supports: [[Int]]
    /// By object: contests in which others are before it, and what it hangs on that is not in.
    private var behind: [Int]
    private var awaited: [Int]
    /// By object that is out, the list that it fails.
    private(set) var refused: [Int: Int] = [:]
    private var pending: [(object: Int, failing: Int?)] = []
    /// Undecided objects that are behind nobody.
    private var unopposed = 0
    private var hasOpen = false

    /// - Parameters:
    ///   - objects: by object, what each has and wants; objects without claims may be among them.
    ///   - holder: who has that value of that list in the store.
    init<Failure: Error>(
        _ objects: [[Claim]], holder: (Int, StoredKey) throws(Failure) -> Holder
    ) throws(Failure) {
        states = Array(repeating: .undecided, count: objects.count)
        claimsOf = Array(repeating: [], count: objects.count)
        dependents = Array(repeating: [], count: objects.count)
        supports = Array(repeating: [], count: objects.count)
        behind = Array(repeating: 0, count: objects.count)
        awaited = Array(repeating: 0, count: objects.count)
        var values: [ListedValue: Int] = [:]
        for (object, own) in objects.enumerated() {
            for claim in own where claim.isMoving || claim.isGivingUp || claim.isKeeping {
                add(claim, of: object, &values)
            }
        }
        for (value, contest) in values {
            switch try holder(value.list, value.key) {
            case .nobody: continue
            case .stranger: contests[contest].isHeld = true
            case .leaving(let object):
                for claim in contests[contest].claimants where claims[claim].object != object {
                    add(Dependent(claim: claim, isNested: false), of: object)
                }
            }
        }
        for contest in contests.indices {
            contests[contest].claimants.sort { (claims[$0].claimedAt, $0) < (claims[$1].claimedAt, $1) }
            for (position, claim) in contests[contest].claimants.enumerated().dropFirst() {
                claims[claim].position = position
                behind[claims[claim].object] += 1
            }
        }
        unopposed = behind.count { $0 == 0 }
    }

    private struct ListedValue: Hashable {
        let list: Int
        let key: StoredKey
    }

    private mutating func add(_ claim: Claim, of object: Int, _ values: inout [ListedValue: Int]) {
        let number = claims.count
        let around = Set(claim.within).subtracting([object])
        // Who has the value comes before all who want it.
        let claimedAt = claim.isKeeping ? 0 : claim.claimedAt
        var claimant = Claimant(object: object, claimedAt: claimedAt, awaited: around.count)
        if claim.isMoving || claim.isKeeping {
            let value = ListedValue(list: claim.list, key: claim.new)
            let contest = values[value] ?? contests.count
            if contest == contests.count {
                values[value] = contest
                contests.append(Contest(list: claim.list))
            }
            contests[contest].claimants.append(number)
            claimant.contest = contest
        }
        claims.append(claimant)
        claimsOf[object].append(number)
        for other in around { add(Dependent(claim: number, isNested: true), of: other) }
    }

    private mutating func add(_ dependent: Dependent, of object: Int) {
        let other = claims[dependent.claim].object
        dependents[object].append(dependent)
        supports[other].append(object)
        awaited[other] += 1
    }

    // MARK: - Settling

    /// Decides as much as can be, and who is out.
    mutating func settle() {
        for claim in claims.indices { judge(claim) }
        for object in states.indices { takeIfReady(object) }
        decidePending()
        var searches = 0
        while searches < Self.maximumSearches || refused.isEmpty {
            searches += 1
            if !takeExchanging() {
                guard !hasOpen, let loser = loserInCircle(&searches) else { return }
                pending.append(loser)
            }
            decidePending()
        }
    }

    private mutating func decidePending() {
        while let (object, list) = pending.popLast() {
            guard states[object] == .undecided else { continue }
            if behind[object] == 0 { unopposed -= 1 }
            if let list { leaveOut(object, failing: list) } else { take(object) }
        }
    }

    private mutating func take(_ object: Int) {
        states[object] = .isIn
        for claim in claimsOf[object] {
            guard let contest = claims[claim].contest else { continue }
            for other in contests[contest].claimants where claims[other].object != object { judge(other) }
        }
        for dependent in dependents[object] {
            let other = claims[dependent.claim].object
            awaited[other] -= 1
            if dependent.isNested { claims[dependent.claim].awaited -= 1 }
            judge(dependent.claim)
            takeIfReady(other)
        }
    }

    private mutating func leaveOut(_ object: Int, failing list: Int) {
        states[object] = .isOut
        refused[object] = list
        for dependent in dependents[object] {
            if dependent.isNested {
                open(claims[dependent.claim].object)
            } else if let contest = claims[dependent.claim].contest {
                contests[contest].isHeld = true
                judge(dependent.claim)
            }
        }
        for claim in claimsOf[object] {
            if let contest = claims[claim].contest { passOn(contest) }
        }
    }

    private mutating func open(_ object: Int) {
        guard states[object] == .undecided else { return }
        if behind[object] == 0 { unopposed -= 1 }
        states[object] = .isOpen
        hasOpen = true
    }

    /// Who is before the others of a contest has changed.
    private mutating func passOn(_ number: Int) {
        let claimants = contests[number].claimants
        let known = contests[number].first
        var first = known
        while first < claimants.count, states[claims[claimants[first]].object] == .isOut { first += 1 }
        guard first != known else { return }
        contests[number].first = first
        guard first < claimants.count else { return }
        let object = claims[claimants[first]].object
        behind[object] -= 1
        guard behind[object] == 0, states[object] == .undecided else { return }
        unopposed += 1
        takeIfReady(object)
    }

    /// Leaves the claim's object out if what it claims is another's, whatever becomes of the undecided.
    private mutating func judge(_ claim: Int) {
        let claimant = claims[claim]
        guard states[claimant.object] == .undecided, claimant.awaited == 0, let number = claimant.contest else {
            return
        }
        let contest = contests[number]
        let isWon =
            contest.first < contest.claimants.count && isTaken(contest.claimants[contest.first], claimant.object)
        if contest.isHeld || isWon { pending.append((claimant.object, contest.list)) }
    }

    private func isTaken(_ first: Int, _ object: Int) -> Bool {
        claims[first].object != object && states[claims[first].object] == .isIn
    }

    private mutating func takeIfReady(_ object: Int) {
        guard states[object] == .undecided, behind[object] == 0, awaited[object] == 0, !isRefused(object) else {
            return
        }
        pending.append((object, nil))
    }

    private func isRefused(_ object: Int) -> Bool {
        claimsOf[object].contains { claims[$0].contest.map { contests[$0].isHeld } ?? false }
    }

    /// Takes the undecided that are behind nobody and hang on each other alone.
    private mutating func takeExchanging() -> Bool {
        guard unopposed > 0 else { return false }
        var mayBeIn = states.indices.map { states[$0] == .undecided && behind[$0] == 0 && !isRefused($0) }
        var failing = states.indices.filter { !mayBeIn[$0] && states[$0] != .isIn }
        while let object = failing.popLast() {
            for dependent in dependents[object] {
                let other = claims[dependent.claim].object
                if mayBeIn[other] {
                    mayBeIn[other] = false
                    failing.append(other)
                }
            }
        }
        for object in states.indices where mayBeIn[object] { pending.append((object, nil)) }
        return !pending.isEmpty
    }

    // MARK: - Circles

    /// Who goes of a circle of undecided objects that hangs on nothing outside.
    private func loserInCircle(_ searches: inout Int) -> (object: Int, failing: Int?)? {
        guard let start = states.firstIndex(of: .undecided) else { return nil }
        let lost = circle(from: start).flatMap { claimsOf[$0] }.filter { claim in
            guard let contest = claims[claim].contest.map({ contests[$0] }) else { return false }
            return contest.isHeld || contest.claimants[contest.first] != claim
        }.sorted { (claims[$0].claimedAt, $0) < (claims[$1].claimedAt, $1) }
        guard let first = lost.first else { return nil }
        for claim in lost.prefix(max(0, Self.maximumSearches - searches)) {
            searches += 1
            if let list = listFailed(byTaking: claims[claim].object) { return (claims[claim].object, list) }
        }
        return (claims[first].object, contests[claims[first].contest!].list)
    }

    /// What the object fails because of those that would be in if it were.
    private func listFailed(byTaking object: Int) -> Int? {
        var trial = self
        trial.pending.append((object, nil))
        trial.decidePending()
        for claim in claimsOf[object] {
            guard let contest = claims[claim].contest.map({ trial.contests[$0] }) else { continue }
            if contest.isHeld || trial.isTaken(contest.claimants[contest.first], object) { return contest.list }
        }
        return nil
    }

    /// What the object hangs on that is undecided.
    private func blockers(_ object: Int) -> [Int] {
        let before = claimsOf[object].compactMap { claim -> Int? in
            guard let contest = claims[claim].contest else { return nil }
            return contests[contest].claimants[..<claims[claim].position].last {
                states[claims[$0].object] == .undecided
            }.map { claims[$0].object }
        }
        return before + supports[object].filter { states[$0] == .undecided }
    }

    /// The first strongly connected component that Tarjan's algorithm completes, from that object on: no other is
    /// reached from it.
    private func circle(from start: Int) -> [Int] {
        var order: [Int: Int] = [start: 0]
        var lowest: [Int: Int] = [start: 0]
        var met = [start]
        var path = [(object: start, blockers: blockers(start)[...])]
        while let (object, _) = path.last {
            if let next = path[path.count - 1].blockers.popFirst() {
                if let known = order[next] {
                    lowest[object] = min(lowest[object]!, known)
                } else {
                    order[next] = met.count
                    lowest[next] = met.count
                    met.append(next)
                    path.append((next, blockers(next)[...]))
                }
                continue
            }
            if lowest[object] == order[object] { return Array(met[order[object]!...]) }
            path.removeLast()
            if let parent = path.last?.object { lowest[parent] = min(lowest[parent]!, lowest[object]!) }
        }
        return met
    }
}
