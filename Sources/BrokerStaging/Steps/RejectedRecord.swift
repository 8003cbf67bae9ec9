internal import BrokerJSON
package import BrokerModel

/// A record that a job skipped, as the smallest job that says it again: its operation, with that element of `json` alone. Where
/// `json` is one record, or a whole payload, or what a relationship gets, it is all of `json`.
package struct RejectedRecord: Sendable, Equatable {
    /// That of the first fault.
    package let entity: String
    /// JSON: an array of the first faults, whose paths lead into the request.
    package let errors: [UInt8]
    /// JSON: a job without an id.
    package let request: [UInt8]

    /// Limits of one job: a small frame can have very many rejections.
    package static let mostOfJob = 1_000
    package static let mostBytesOfJob = 8 << 20
    fileprivate static let mostErrors = 20

    package var byteCount: Int { entity.utf8.count + errors.count + request.count }
}

extension StagedRows {
    /// Cuts records out of the job whose rows these are.
    ///
    /// - Parameter faults: the job's rejections, with their paths.
    /// - Returns: the records in the order of the job, and how many exceed its limits.
    package func rejectedRecords(_ faults: [Fault]) -> (records: [RejectedRecord], omitted: Int) {
        var cutter = RejectedRecordCutter(collections[0].document)
        return cutter.cut(faults)
    }
}

private struct RejectedRecordCutter {
    /// A fault, and its path from some value on.
    private typealias Located = (path: ArraySlice<Substring>, fault: Fault)

    private struct Operation {
        /// Nil for a member of `collections`.
        var fields: JSONValue?
        var entity: JSONValue?
        /// `json`, or the `objects` of a deletion.
        var payloadKey = "json"
        let payload: JSONValue
        /// With their paths in the payload.
        let faults: [Located]

        /// Each element of the payload is a record.
        var isList: Bool { payload.kind == .array && fields?["op"]?.string != "relate" }
    }

    private let document: JSONDocument
    private var records: [RejectedRecord] = []
    private var count = 0
    private var bytes = 0

    init(_ document: JSONDocument) { self.document = document }

    mutating func cut(_ faults: [Fault]) -> (records: [RejectedRecord], omitted: Int) {
        for operation in operations(faults.map { ($0.path?.split(separator: "/")[...] ?? [], $0) }) {
            guard operation.isList else {
                add(operation.payload, operation, operation.faults)
                continue
            }
            let found = Dictionary(grouping: operation.faults) { $0.path.first.flatMap { Int($0) } ?? -1 }
            // One walk over the elements.
            for (index, value) in operation.payload.elements.enumerated() {
                guard let faults = found[index] else { continue }
                add(value, operation, faults.map { ($0.path.dropFirst(), $0.fault) })
            }
        }
        return (records, count - records.count)
    }

    /// The operations with faults, in their order; found in one walk.
    private func operations(_ faults: [Located]) -> [Operation] {
        let root = document.root
        guard let list = root["operations"] ?? root["collections"] else {
            return operation(root, faults).map { [$0] } ?? []
        }
        // By the second token of the path: the number of an operation, or the name of a collection.
        let found = Dictionary(grouping: faults) { $0.path.dropFirst().first ?? "" }.mapValues { faults in
            faults.map { (path: $0.path.dropFirst(2), fault: $0.fault) }
        }
        if list.kind == .array {
            return list.elements.enumerated().compactMap { number, fields in
                found["\(number)"].flatMap { operation(fields, $0) }
            }
        }
        // Of several members with one key, the last one counts.
        var last: [Substring: (number: Int, operation: Operation)] = [:]
        for (number, member) in list.members.enumerated() {
            let name = (member.key.string ?? "").asPointerToken[...]
            guard let faults = found[name] else { continue }
            last[name] = (number, Operation(entity: member.key, payload: member.value, faults: faults))
        }
        return last.values.sorted { $0.number < $1.number }.map(\.operation)
    }

    private func operation(_ fields: JSONValue, _ faults: [Located]) -> Operation? {
        guard let key = faults.first?.path.first, ["json", "objects"].contains(key), let payload = fields[String(key)]
        else { return nil }
        return Operation(
            fields: fields, payloadKey: String(key), payload: payload,
            faults: faults.map { ($0.path.dropFirst(), $0.fault) })
    }

    // MARK: - Records

    private mutating func add(_ value: JSONValue, _ operation: Operation, _ faults: [Located]) {
        count += 1
        let listed = faults.prefix(RejectedRecord.mostErrors).map { $0.fault.at($0.path.map { "/" + $0 }.joined()) }
        let size = listed.reduce(value.bytes.count + headerBytes(operation)) { size, fault in
            size + fault.message.utf8.count + (fault.path?.utf8.count ?? 0)
        }
        guard records.count < RejectedRecord.mostOfJob, bytes + size <= RejectedRecord.mostBytesOfJob else { return }
        let record = record(value, operation, listed)
        bytes += record.byteCount
        records.append(record)
    }

    private static let copied = ["entity", "object", "relationship", "mapping", "path"]

    private func headerBytes(_ operation: Operation) -> Int {
        Self.copied.reduce(operation.entity?.bytes.count ?? 0) { $0 + (operation.fields?[$1]?.bytes.count ?? 0) }
    }

    private func record(_ value: JSONValue, _ operation: Operation, _ faults: [Fault]) -> RejectedRecord {
        var request = JSONWriter(capacity: value.bytes.count + 128)
        request.object { writer in
            for key in ["unknown", "names"] { if let value = document.root[key] { writer.member(key, value) } }
            writer.array("operations") { writer in
                writer.object { writer in
                    write(operation, to: &writer)
                    writer.key(operation.payloadKey)
                    if operation.isList { writer.array { $0.value(value) } } else { writer.value(value) }
                }
            }
        }
        var errors = JSONWriter(capacity: 256)
        let start = "/operations/0/\(operation.payloadKey)" + (operation.isList ? "/0" : "")
        errors.array(of: faults) { fault, writer in fault.at(start + (fault.path ?? "")).write(to: &writer) }
        return RejectedRecord(entity: faults.first?.entity ?? "", errors: errors.bytes, request: request.bytes)
    }

    /// A `sync` becomes what it does with records: it deletes nothing.
    private func write(_ operation: Operation, to writer: inout JSONWriter) {
        if let entity = operation.entity { writer.member("entity", entity) }
        guard let fields = operation.fields else { return }
        if let op = fields["op"], op.string != "sync" {
            writer.member("op", op)
        } else if let actions = fields["actions"]?.elements.filter({ $0.string != "delete" }), actions.count < 2 {
            writer.member("op", "sync")
            writer.array("actions", of: actions) { $1.value($0) }
        }
        for key in Self.copied { if let value = fields[key] { writer.member(key, value) } }
    }
}
