import Broker
import BrokerClient
import BrokerFastJSON
import BrokerInput
import BrokerJSON

/// The faults of a check that the server did not report: it reports the first of each record. So the job is tried again
/// without the values that are at fault, until nothing new is found. Faults that a missing identity or required value hides stay
/// hidden.
struct FurtherFaults: Sendable {
    fileprivate struct RemovedValue {
        /// From the record on.
        let path: String
        let fault: Completion.Rejection
    }

    /// Trials of one job: each finds at least one more fault of a record, and records with more of them are rare.
    private static let mostTrials = 100

    let broker: BrokerClient
    let records: JobRecords
    /// The trial of a JSON array of records.
    let job: @Sendable (RawJSON) -> Job

    /// - Returns: the faults of the completion and the further ones, in the order of the records.
    func all(after completion: Completion) async throws -> [Completion.Rejection] {
        var faults = completion.rejections
        var known = Set(faults)
        var removed: [Int: [RemovedValue]] = [:]
        var new = faults
        for _ in 0..<Self.mostTrials {
            guard remove(new, &removed) else { break }
            new = try await broker.process(job(try text(without: removed))).rejections.filter { fault in
                let place = records.find(fault.path)
                let values = place.flatMap { removed[$0.index] } ?? []
                return !values.contains { $0.causes(fault, at: place?.path ?? "") } && known.insert(fault).inserted
            }
            faults += new
        }
        let order = faults.map { records.find($0.path)?.index ?? records.count }
        return faults.indices.sorted { (order[$0], $0) < (order[$1], $1) }.map { faults[$0] }
    }

    /// - Returns: false when none of the faults is that of a value which can be removed.
    private func remove(_ faults: [Completion.Rejection], _ removed: inout [Int: [RemovedValue]]) -> Bool {
        var isChanged = false
        for fault in faults where [.invalidValue, .validationFailed].contains(fault.code) {
            guard let (index, path) = records.find(fault.path), !path.isEmpty else { continue }
            removed[index, default: []].append(RemovedValue(path: path, fault: fault))
            isChanged = true
        }
        return isChanged
    }

    private func text(without removed: [Int: [RemovedValue]]) throws -> RawJSON {
        var writer = JSONWriter()
        try writer.array { writer in
            for index in 0..<records.count {
                let line = records.line(index)
                guard let values = removed[index] else {
                    writer.raw(line)
                    continue
                }
                let document = try JSONDocument(fast: JSONText(copying: line))
                let pointers = values.map { ArraySlice($0.path.split(separator: "/").map(Self.unescaped)) }
                withExtendedLifetime(document) { Self.write(document.root, without: pointers, to: &writer) }
            }
        }
        return RawJSON(checked: writer.bytes, depth: RecordLimits.maximumDepth + 1)
    }

    private static func unescaped(_ token: Substring) -> String {
        String(token).replacing("~1", with: "/").replacing("~0", with: "~")
    }

    /// Writes a value without the members of objects that the pointers lead to.
    private static func write(_ value: JSONValue, without pointers: [ArraySlice<String>], to writer: inout JSONWriter) {
        func inside(_ token: String) -> [ArraySlice<String>] {
            pointers.filter { $0.first == token }.map { $0.dropFirst() }
        }
        guard !pointers.isEmpty, [.object, .array].contains(value.kind) else { return writer.value(value) }
        guard value.kind == .object else {
            return writer.array { writer in
                for (index, element) in value.elements.enumerated() {
                    write(element, without: inside("\(index)"), to: &writer)
                }
            }
        }
        writer.object { writer in
            for (key, value) in value.members {
                let name = key.string ?? ""
                let pointers = inside(name)
                if pointers.contains(where: \.isEmpty) { continue }
                writer.key(name)
                write(value, without: pointers, to: &writer)
            }
        }
    }
}

extension FurtherFaults.RemovedValue {
    /// The fault would not be there with a valid value.
    fileprivate func causes(_ other: Completion.Rejection, at place: String) -> Bool {
        guard path.hasPrefix(place + "/") else { return false }
        switch other.code {
        case .noKnownKey: return true
        case .missingIdentity, .missingValue: return other.attribute == fault.attribute && other.entity == fault.entity
        default: return false
        }
    }
}
