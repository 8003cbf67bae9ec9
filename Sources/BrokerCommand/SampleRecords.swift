import BrokerCommandLine
import BrokerInput
import BrokerModelSources
import BrokerJSON
import BrokerModel
import Foundation

/// Records of an input, looked at to infer a model from them.
struct SampleRecords {
    /// The position of the records in each value, if it was not given and can be found.
    private(set) var root: RecordRoot?
    private(set) var inference: SampleInference
    private let entity: String
    private let limit: Int
    private var bytes = 0

    /// The maximum bytes of samples; the rest of the input is not read.
    static let mostRecords = 1_000
    static let mostBytes = 8 << 20
    /// So much of standard input is read before anything is done with it.
    static let mostInput = 4 << 20

    private struct Enough: Error {}

    /// - Parameter limit: records at most, of bounded size together, and standard input can be read again; nil reads all.
    init(of sources: [RecordSource], entity: String, limit: Int?) async throws {
        self.entity = entity
        self.limit = limit ?? .max
        inference = SampleInference(entity: entity)
        for source in sources {
            let isAhead = source.path == "-" && limit != nil
            do {
                if isAhead { try await lookAhead(source) } else { try await look(at: source) }
            } catch is Enough {
                return
            } catch let fault as InputFault {
                let place = fault.place.map { ", \($0)" } ?? ""
                throw CommandFailure(.failed, "\(source.name)\(place): \(fault.text)")
            }
        }
    }

    private mutating func look(at source: RecordSource) async throws {
        try await source.forEach { record, _ in try observe(record, source) }
    }

    private mutating func lookAhead(_ source: RecordSource) async throws {
        let (beginning, isAll) = StandardInput.readAhead(Self.mostInput)
        let copy = URL(filePath: NSTemporaryDirectory()).appending(path: "broker-\(UUID().uuidString)")
        try Data(beginning).write(to: copy)
        defer { unlink(copy.path) }
        do {
            try await look(at: RecordSource(path: copy.path, format: source.format, root: source.root, csv: source.csv))
        } catch let fault as InputFault where !isAll && inference.recordCount > 0 {
            // It is cut somewhere, and whole records were before that.
            _ = fault
        }
    }

    private mutating func observe(_ record: InputRecord, _ source: RecordSource) throws {
        let document = try record.parsed()
        defer { withExtendedLifetime(document) {} }
        if inference.recordCount == 0, bytes == 0, source.root == nil { root = Self.root(in: document.root, entity) }
        bytes += record.json.count
        var value = document.root
        if let root { value = (try? root.find(in: value)) ?? value }
        inference.observe(value)
        if inference.recordCount >= limit || (limit < .max && bytes >= Self.mostBytes) { throw Enough() }
    }

    /// `{"statuses": [{…}, …]}` holds records of Status.
    private static func root(in value: JSONValue, _ entity: String) -> RecordRoot? {
        guard value.kind == .object else { return nil }
        for (key, member) in value.members where member.kind == .array {
            guard let key = key.string, SampleInference.isPlural(key, of: entity),
                member.elements.first(where: { $0.kind != .object }) == nil,
                member.elements.first(where: { _ in true }) != nil
            else { continue }
            return RecordRoot("/" + key.asPointerToken)
        }
        return nil
    }

    func reportRoot() {
        guard let root else { return }
        Program.complain("broker: the records are taken from \(root.text) of the input; --root selects others.")
    }

    /// The model as a tree. This ends the inference.
    ///
    /// - Throws: when a model could not name all that the records hold.
    var document: ModelDocument {
        get throws {
            guard !inference.isTooWide else {
                throw CommandFailure(
                    .failed,
                    "No model can be inferred: a record has more than 300 keys with objects, or more than 2000 keys. "
                        + "If it holds records by their keys, make an array of them (jq '[.[]]' does), or give --model "
                        + "with a mapping that has \"collection\": true, and --mapping.")
            }
            return try ModelDocument(parsing: JSONText(copying: Array(inference.modelText().utf8)))
        }
    }
}
