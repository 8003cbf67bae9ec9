internal import BrokerModel

/// The memory of a job's net changes and of its deletion set. Both grow while one statement runs, so a job that may take
/// no more is ended by the work meter, in the middle of the statement.
struct RecordingMemory {
    enum Change {
        /// - Parameter count: the entries with the new one.
        case entry(keyBytes: Int, count: Int)
        case undo
        /// The state of a row before a first step.
        case original
        /// The number of a changed row that is only counted.
        case number
        case inDeletionSet
        case outOfDeletionSet
    }

    /// The maximum number of entries, whatever memory the job may take.
    static let maximumEntries = 400_000
    /// An entry in an array that has doubled, its places in two indexes, and the header of its key's bytes.
    private static let bytesPerEntry = 2 * MemoryLayout<NetChanges.Entry>.stride + 144
    private static let bytesPerUndo = MemoryLayout<(Int, NetChanges.Entry)>.stride
    /// Elements of a dictionary and of a set that have doubled.
    private static let bytesPerOriginal = 64
    private static let bytesPerNumber = 24
    /// A row of the deletion set and of its index, in SQLite's pages.
    private static let bytesPerDeletion = 64

    private let memory: MergeMemory
    private let meter: WorkMeter
    private(set) var bytes = 0

    init(_ memory: MergeMemory, _ meter: WorkMeter) {
        self.memory = memory
        self.meter = meter
    }

    mutating func note(_ change: Change) {
        switch change {
        case .entry(let keyBytes, let count):
            add(Self.bytesPerEntry + keyBytes)
            if count > Self.maximumEntries { meter.refuse(Self.tooMany) }
        case .undo: add(Self.bytesPerUndo)
        case .original: add(Self.bytesPerOriginal)
        case .number: add(Self.bytesPerNumber)
        case .inDeletionSet: add(Self.bytesPerDeletion)
        case .outOfDeletionSet: bytes -= Self.bytesPerDeletion
        }
    }

    /// The changes need not be undone.
    mutating func forget(_ undone: Int) { bytes -= undone * Self.bytesPerUndo }

    mutating func reset(to bytes: Int) { self.bytes = bytes }

    private mutating func add(_ count: Int) {
        bytes += count
        if !memory.hold(bytes) { meter.refuse(Self.tooLarge) }
    }

    private static var tooMany: Fault {
        .busy(
            "The job changes more than the \(maximumEntries) objects that are tracked for one job. Send it as several jobs, or a "
                + "large `delete` or `sync` as a job of its own and without `reply: keys`.")
    }

    private static var tooLarge: Fault {
        .busy(
            "The objects that the job changes or deletes take more memory than one job may. Send it as several jobs, or a "
                + "large `delete` or `sync` as a job of its own and without `reply: keys`.")
    }
}
