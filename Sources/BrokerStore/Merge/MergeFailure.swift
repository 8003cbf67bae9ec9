internal import BrokerModel
internal import BrokerStaging

/// Why a job's rows were not merged.
enum MergeFailure: Error {
    /// The job is at fault.
    case fault(Fault)
    /// These objects cannot be merged, but the others might. There is no fault where an object is rejected without a
    /// report.
    case rejected([RejectedRow])
    /// Two objects claim one unique value, and a careful merge must find out which.
    case contended
    /// Objects outside of the step have values that it claims: these are parked, and the step is tried again.
    case occupied([OccupiedValue])
    /// At the job's end, objects still had values that records claimed; these must be checked at once.
    case unsettled(Set<OccupiedValue.Value>)
    /// Records are not newer than their objects.
    case stale
    /// Objects may be of other entities than their records, and the merge must know of which.
    case misjudged
    /// Bare keys that make nothing ask for another entity than their objects are of after the records.
    case mismatchedKeys([MismatchedKeys])
    /// Tombstones delete, by cascade, objects that records beside them name: tombstones and records must be applied one
    /// after the other.
    case entangled
    /// Staging needs the stored identity of the operation's object, which has a row key: other rows name it so, or its
    /// record has a part of an identity.
    case needsTargetIdentity(identity: StoredKey, kind: Int)
    /// The operation cannot be applied to the object that it names.
    case targetRejected(Fault)
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

struct RejectedRow {
    let entity: Int
    let row: Int
    let fault: Fault?
    /// The fault that is reported for bare keys that require the object to exist, when it does not exist and cannot be
    /// inserted.
    var absence: Fault?
    /// Only bare keys of entities below that one are rejected, and not the object.
    var keysBelow: Int?
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
