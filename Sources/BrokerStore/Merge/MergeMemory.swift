internal import BrokerJSON
internal import BrokerModel
internal import BrokerStaging

/// The memory that the merge of one job needs besides its staged rows: what the interpreter reads, parked values, and the
/// changes that are recorded.
///
/// Used by the one thread that merges the job.
final class MergeMemory: StagingAllowance, @unchecked Sendable {
    let allowance: (any MemoryAllowance)?
    private var used = 0
    /// The part of the used memory that belongs to a growing table.
    private var held = 0

    /// - Parameter allowance: nil grants everything.
    init(_ allowance: (any MemoryAllowance)?) { self.allowance = allowance }

    deinit { release() }

    func take(_ bytes: Int) -> Bool {
        guard allowance?.take(bytes) ?? true else { return false }
        used += bytes
        return true
    }

    /// Like ``take(_:)``, for a table that now has so many bytes.
    func hold(_ bytes: Int) -> Bool {
        guard bytes > held else { return true }
        let step = max(bytes - held, 64 << 10)
        guard take(step) else { return false }
        held += step
        return true
    }

    /// Returns all memory to the allowance.
    func release() {
        allowance?.giveBack(used)
        (used, held) = (0, 0)
    }

    static let refusal = Fault.busy(
        "Skipping the records that cannot be stored needs more memory than one job may take. Split it into several "
            + "jobs, or raise the server's limit.")
}

/// The memory that the merge of one job may take, whatever its staging has taken: so a job of a log ends alike wherever it is
/// merged.
///
/// Used by the one thread that merges the job.
final class MergeLimit: MemoryAllowance, @unchecked Sendable {
    private let limit: Int
    private let allowance: (any MemoryAllowance)?
    private var used = 0

    /// - Parameter allowance: grants what the limit allows; nil grants everything.
    init(_ limit: Int, _ allowance: (any MemoryAllowance)?) {
        self.limit = limit
        self.allowance = allowance
    }

    func take(_ bytes: Int) -> Bool {
        guard used + bytes <= limit, allowance?.take(bytes) ?? true else { return false }
        used += bytes
        return true
    }

    func giveBack(_ bytes: Int) {
        used -= bytes
        allowance?.giveBack(bytes)
    }
}

/// Why a job's rows were not merged.
enum MergeFailure: Error {
    /// The job is at fault.
    case fault(Fault)
    /// Applying the records one after the other may have another result: nothing is repaired, and the interpreter applies them.
    case surprise(InterpretationReason)
    /// The store is at fault.
    case store(StoreError)
}

extension MergeFailure {
    init(_ refusal: StagingRefusal) {
        switch refusal {
        case .fault(let fault): self = .fault(fault)
        case .noRoom: self = .fault(MergeMemory.refusal)
        }
    }
}

/// Runs `body`; an error of the store becomes ``MergeFailure/store(_:)``.
@inline(__always)
func storing<Result>(_ body: () throws(StoreError) -> Result) throws(MergeFailure) -> Result {
    do throws(StoreError) {
        return try body()
    } catch {
        throw .store(error)
    }
}

/// A value of a unique list that an object outside of a step's rows has, and that an object of the step claims.
struct OccupiedValue {
    struct Value: Hashable {
        let entity: Int
        let attributes: [Int]
        let key: StoredKey

        var list: [Int] { [entity] + attributes }
    }

    let value: Value
    /// The entity of the claiming object, and the offset of the record that claims the value.
    let claimant: Int
    let claimedAt: Int
}
