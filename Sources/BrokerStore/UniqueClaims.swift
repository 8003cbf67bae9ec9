/// Who of a job's objects may have which unique values: only what the job leaves behind must be unique, so objects may
/// exchange values, and of two that claim one value the later is left out.
///
/// One list of attributes that are unique together, of one entity. A pure value: what the store holds is asked for.
///
/// ```
/// an object that keeps its value, or is left out, holds it for good ─▶ who claims that value is left out
///   ─▶ and holds the value that it had ─▶ …
/// ```
struct UniqueClaims {
    /// What one staged object has and wants.
    struct Claim {
        let row: Int
        /// Where the record begins that says so.
        let claimedAt: UInt32
        /// Nil for an object that is new.
        let old: StoredKey?
        let new: StoredKey

        /// A value with NULL in it is never the same as another.
        var isMoving: Bool { old != new && !new.hasNull }

        /// Leaves the value that it had, for another one or for NULL.
        var isGivingUp: Bool { if let old { old != new && !old.hasNull } else { false } }
    }

    /// Who has a value in the store.
    enum Holder {
        case nobody
        /// An object that this job does not touch.
        case stranger
        case staged(row: Int)
    }

    private let claims: [Claim]
    /// Values that somebody has who will not give them up.
    private var held = Set<StoredKey>()
    private var taken: [StoredKey: Int] = [:]
    /// Rows whose claims cannot be met.
    private(set) var refused: Set<Int>

    /// - Parameters:
    ///   - claims: of all staged rows of the entity that are new or bring one of the attributes.
    ///   - refused: rows that are left out already.
    init(_ claims: [Claim], refused: Set<Int>) {
        self.claims = claims
        self.refused = refused
    }

    /// Settles who is left out.
    ///
    /// - Parameter holder: who has a value in the store.
    mutating func settle<Failure: Error>(_ holder: (StoredKey) throws(Failure) -> Holder) throws(Failure) {
        let byRow = Dictionary(uniqueKeysWithValues: claims.map { ($0.row, $0) })
        for claim in claims {
            if refused.contains(claim.row) {
                if let old = claim.old, !old.hasNull { held.insert(old) }
            } else if !claim.isMoving, !claim.new.hasNull {
                held.insert(claim.new)
            }
        }
        let moving = claims.filter { $0.isMoving && !refused.contains($0.row) }
        for claim in moving {
            switch try holder(claim.new) {
            case .nobody: continue
            case .stranger: held.insert(claim.new)
            // One that names no value of this list keeps the one it has.
            case .staged(let row): if byRow[row] == nil { held.insert(claim.new) }
            }
        }
        for claim in moving.sorted(by: { ($0.claimedAt, $0.row) < ($1.claimedAt, $1.row) })
        where !refused.contains(claim.row) {
            if held.contains(claim.new) || taken[claim.new] != nil {
                refuse(claim, byRow)
            } else {
                taken[claim.new] = claim.row
            }
        }
    }

    /// The object keeps what it had, and whoever took that gives it back.
    private mutating func refuse(_ claim: Claim, _ byRow: [Int: Claim]) {
        var pending = [claim]
        while let claim = pending.popLast() {
            guard refused.insert(claim.row).inserted else { continue }
            if taken[claim.new] == claim.row { taken[claim.new] = nil }
            guard let old = claim.old, !old.hasNull else { continue }
            held.insert(old)
            if let row = taken[old], let other = byRow[row] { pending.append(other) }
        }
    }
}
