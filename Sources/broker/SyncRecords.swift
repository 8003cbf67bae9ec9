import BrokerClient
import BrokerCommandLine
import BrokerWire

/// The records of all inputs of a sync, which are one job, and where each came from.
struct SyncRecords {
    /// Bytes of JSON that a job's message can hold, less what stands around the records.
    private static let maximumBytes = FrameLimits.defaultMaximumContentCount - (1 << 20)

    private var gathered = GatheredRecords()
    private var lines: [Int] = []
    /// With the number of records before each.
    private var inputs: [(name: String, first: Int)] = []
    /// Records read.
    private(set) var count = 0

    /// Reads a whole input.
    mutating func read(_ source: RecordSource) async throws {
        inputs.append((source.name, count))
        do {
            try await source.forEach { record, _ in
                guard gathered.json.count + record.json.count < Self.maximumBytes else { throw Self.tooLarge }
                gathered.append(record)
                count += 1
            }
        } catch let fault as InputFault {
            throw CommandFailure(.failed, fault.sentence(in: source.name))
        }
    }

    /// The array of all records; nothing more can be read then.
    mutating func take() throws(CommandFailure) -> BrokerClient.JSON {
        guard count > 0 else { return BrokerClient.JSON("[]") }
        lines = gathered.lines
        if let fault = gathered.dropBroken() {
            throw CommandFailure(.failed, fault.sentence(in: input(ofRecord: gathered.count)))
        }
        return BrokerClient.JSON(gathered.take())
    }

    /// The record that a JSON Pointer into the job's message leads to.
    func place(at path: String?) -> String? {
        guard let tokens = path?.split(separator: "/"), tokens.count > 1, tokens[0] == "json",
            let index = Int(tokens[1]), lines.indices.contains(index)
        else { return nil }
        let input = inputs.last { $0.first <= index }
        return "\(input?.name ?? "the input"), line \(lines[index]) (record \(index - (input?.first ?? 0) + 1))"
    }

    private func input(ofRecord index: Int) -> String { inputs.last { $0.first <= index }?.name ?? "the input" }

    static let tooLarge = CommandFailure(
        .failed,
        "The input is too large for one job, and a sync is one job. Sync less at once: part of the input, with a --where "
            + "that matches that part alone. Nothing was sent.")
}
