internal import BrokerJSON

/// The memory of a job whose turn to be merged has come.
final class MergedJobMemory: MemoryAllowance {
    private let memory: JobMemory

    init(_ memory: JobMemory) { self.memory = memory }

    func take(_ bytes: Int) -> Bool { memory.takeInTurn(bytes) }

    func giveBack(_ bytes: Int) { memory.giveBack(bytes) }
}
