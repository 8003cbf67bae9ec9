internal import HeapModule

/// Decides which objects of one staging are rejected for their unique values. A pure value: the caller reads the store.
///
/// An object claims a value of a list of unique attributes when the job would give it one that it does not have. Values
/// must be unique only at the end of the job, so a value that another object of the job gives up can be claimed.
///
/// 1. While an object claims a value that another object retains, the first such claim in the text is lost.
/// 2. Then, of the claims on a value that an earlier claim takes, the first in the text is lost, and rule 1 applies again.
///
/// An object that loses a claim is rejected: it retains the values that it had, and its other claims do not count. An object
/// with a claim inside a record of a rejected object is undecided: the next staging shows what is left of its claims.
///
/// Invariants
///  1. A rejection is never undone, so every staging but the last rejects an object.
///  2. Each claim is examined a constant number of times.
struct UniqueConflicts {
    /// One object's value of one list, before the job and after it.
    struct Claim {
        let list: Int
        /// The offset of the record that claims the value.
        let claimedAt: UInt32
        /// Nil for an object that is new.
        let old: StoredKey?
        let new: StoredKey
        /// Objects, by their indices in `objects`, whose records enclose the claim.
        let within: [Int]

        /// A value with NULL in it is never the same as another.
        var isMoving: Bool { old != new && !new.hasNull }

        /// The object gives up the value that it had, for another one or for NULL.
        var isGivingUp: Bool { if let old { old != new && !old.hasNull } else { false } }
    }

    private enum State { case included, rejected, undecided }

    private struct ListedValue: Hashable {
        let list: Int
        let key: StoredKey
    }

    private struct Claimant {
        let object: Int
        let list: Int
        let value: Int
    }

    /// By object.
    private var states: [State]
    /// Claims on values, in the order of the text.
    private var claims: [Claimant] = []
    /// By value: the indices of its claims.
    private var claimants: [[Int]] = []
    /// By value: the object that takes it.
    private var owners: [Int?] = []
    /// By object: the values that it gives up and that others claim.
    private var givenUp: [[Int]]
    /// By object: objects with claims inside its records.
    private var enclosed: [[Int]]
    /// Claims on values that other objects retain.
    private var lost = Heap<Int>()
    /// By object, the list for which it is rejected.
    private(set) var rejected: [Int: Int] = [:]

    /// - Parameters:
    ///   - objects: what each object claims and gives up; objects without claims may be among them.
    ///   - isRetained: whether an object of the store that does not give it up has that value of that list.
    init<Failure: Error>(
        _ objects: [[Claim]], isRetained: (Int, StoredKey) throws(Failure) -> Bool
    ) throws(Failure) {
        states = Array(repeating: .included, count: objects.count)
        givenUp = Array(repeating: [], count: objects.count)
        enclosed = Array(repeating: [], count: objects.count)
        var moving: [(object: Int, claim: Claim)] = []
        for (object, own) in objects.enumerated() {
            for claim in own where claim.isMoving || claim.isGivingUp {
                for other in Set(claim.within) where other != object { enclosed[other].append(object) }
                if claim.isMoving { moving.append((object, claim)) }
            }
        }
        // All claims at one offset are claims of one object, in the order of the lists.
        moving.sort { ($0.claim.claimedAt, $0.object, $0.claim.list) < ($1.claim.claimedAt, $1.object, $1.claim.list) }
        var values: [ListedValue: Int] = [:]
        for (object, claim) in moving {
            let value = values[ListedValue(list: claim.list, key: claim.new), default: values.count]
            if value == values.count {
                values[ListedValue(list: claim.list, key: claim.new)] = value
                claimants.append([])
            }
            claimants[value].append(claims.count)
            claims.append(Claimant(object: object, list: claim.list, value: value))
        }
        owners = Array(repeating: nil, count: values.count)
        for (value, number) in values where try isRetained(value.list, value.key) {
            lost.insert(contentsOf: claimants[number])
        }
        for (object, own) in objects.enumerated() {
            for claim in own where claim.isGivingUp {
                if let value = values[ListedValue(list: claim.list, key: claim.old!)] { givenUp[object].append(value) }
            }
        }
    }

    mutating func settle() {
        rejectLosers()
        for claim in claims {
            guard states[claim.object] == .included else { continue }
            if let owner = owners[claim.value], states[owner] == .included {
                reject(claim)
                rejectLosers()
            } else {
                owners[claim.value] = claim.object
            }
        }
    }

    private mutating func rejectLosers() {
        while let claim = lost.popMin() {
            if states[claims[claim].object] == .included { reject(claims[claim]) }
        }
    }

    private mutating func reject(_ claim: Claimant) {
        let object = claim.object
        states[object] = .rejected
        rejected[object] = claim.list
        for other in enclosed[object] where states[other] == .included { states[other] = .undecided }
        for value in givenUp[object] { lost.insert(contentsOf: claimants[value]) }
    }
}
