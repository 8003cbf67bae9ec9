internal import BrokerJSON
internal import BrokerModel
internal import BrokerStaging

/// One fetch: objects are read in batches, the nested objects of a batch are read by one query for each relationship,
/// and each object is written whole.
struct FetchRun {
    /// The number of objects whose nested objects are read together.
    private static let batchRows = 1_024

    private let request: FetchRequest
    private let limits: FetchLimits
    private let envelope: FetchEnvelope
    private let tree: FetchNode
    private let predicate: PredicateSQL?
    private let statement: Statement
    private let keyWriters: [ValueWriter]
    private var batchRows = FetchRun.batchRows
    private var bytes: [UInt8]
    private var count = 0
    private var certainEnd: Int?

    init(
        _ request: FetchRequest, _ plan: StagingPlan, _ connection: Connection, _ limits: FetchLimits,
        _ envelope: FetchEnvelope, _ guardian: FetchGuard
    ) throws(FetchFailure) {
        self.request = request
        self.limits = limits
        bytes = envelope.beginning
        self.envelope = envelope
        let entity = plan.model.entities[request.entity]
        keyWriters = (entity.isNamedByRowKey ? [] : entity.identity).map {
            plan.valueWriter(entity: request.entity, attribute: $0, .local)
        }
        predicate = request.predicate.map {
            PredicateSQL($0, entity: request.entity, plan: plan, alias: ObjectShape.alias) { guardian.isTimeOver() }
        }
        do throws(StoreError) {
            let sql = FetchSQL(plan)
            tree = try FetchNode(request.inclusions, of: request.entity, request.names, sql, connection)
            statement = try connection.prepare(sql.objects(request, tree.reader.shape, predicate))
        } catch {
            throw .store(error)
        }
        var parameter = 1
        for cell in request.key ?? [] {
            statement.bind(copying: cell, at: parameter)
            parameter += 1
        }
        parameter = predicate?.bind(to: statement, from: parameter) ?? parameter
        // One more, to know whether there are more.
        let isOne = request.result == .object
        statement.bind(Int64(isOne ? min(1, request.limit) : request.limit + 1), at: parameter)
        statement.bind(Int64(request.offset), at: parameter + 1)
    }

    // MARK: - Batches

    mutating func objects() throws(FetchFailure) -> FetchedObjects {
        let (opening, closing): (String, String) =
            switch request.result {
            case .collection: ("[", "]")
            case .dictionary: ("{", "}")
            case .object: ("", "")
            }
        bytes += opening.utf8
        var hasMore = false
        reading: while true {
            let batch = try readBatch()
            for start in stride(from: 0, to: batch.level.count, by: batchRows) {
                let end = min(start + batchRows, batch.level.count)
                guard try write(batch, start..<end) else {
                    hasMore = true
                    break reading
                }
            }
            guard !batch.isLast else {
                hasMore = batch.hasMore
                break
            }
        }
        statement.reset()
        if count == 0, request.result == .object { bytes += "null".utf8 }
        let isCertain = bytes.count <= limits.certainBytes
        return FetchedObjects(
            takeBytes(), closing: Array(closing.utf8), envelope, hasMore: hasMore,
            certainEnd: isCertain ? nil : certainEnd)
    }

    /// Moves the bytes out, so that they are not copied when their end is added.
    private mutating func takeBytes() -> [UInt8] {
        defer { bytes = [] }
        return bytes
    }

    private struct Batch {
        var level: FetchedLevel
        var keys: [[UInt8]] = []
        /// The statement has no more rows, or the fetch needs none of them.
        var isLast = false
        var hasMore = false
    }

    private mutating func readBatch() throws(FetchFailure) -> Batch {
        var batch = Batch(level: FetchedLevel(holeCount: tree.inclusions.count))
        do throws(StoreError) {
            while batch.level.count < batchRows, batch.level.memory < limits.gatheredBytes / 2 {
                guard try statement.step() else {
                    batch.isLast = true
                    break
                }
                guard request.result == .object || count + batch.level.count < request.limit else {
                    batch.isLast = true
                    // With a limit of 0 nothing is fetched, so nothing is omitted.
                    batch.hasMore = request.limit > 0
                    break
                }
                _ = try batch.level.append(statement, tree.reader)
                if request.result == .dictionary {
                    batch.keys.append(tree.reader.shape.keyText(statement, keyWriters))
                }
            }
        } catch {
            throw predicate?.fault.map { .fault($0.at("/where")) } ?? .store(error)
        }
        return batch
    }

    /// Writes some rows of a batch, with all their nested objects.
    ///
    /// - Returns: false when there is no room for all of them.
    private mutating func write(_ batch: Batch, _ rows: Range<Int>) throws(FetchFailure) -> Bool {
        var nested: [FetchedNest]? = []
        if !tree.inclusions.isEmpty {
            nested = try tree.nests(of: batch.level.rowNumbers[rows][...], memory: limits.gatheredBytes)
        }
        guard let nested else {
            guard rows.count > 1, limits.steps == nil else { throw tooLarge() }
            // The nested objects of one row may be few.
            batchRows = max(1, rows.count / 2)
            let middle = rows.lowerBound + rows.count / 2
            guard try write(batch, rows.lowerBound..<middle) else { return false }
            return try write(batch, middle..<rows.upperBound)
        }
        for row in rows {
            let start = bytes.count
            if count > 0 { bytes.append(UInt8(ascii: ",")) }
            if request.result == .dictionary {
                var writer = JSONWriter(capacity: 32)
                batch.keys[row].withUnsafeBufferPointer { writer.string($0) }
                bytes += writer.bytes
                bytes.append(UInt8(ascii: ":"))
            }
            do throws(FetchedNest.Overflow) {
                try batch.level.write(row, to: &bytes) { (number, bytes) throws(FetchedNest.Overflow) in
                    try nested[number].write(of: row - rows.lowerBound, to: &bytes, limit: limits.answerBytes)
                }
                if bytes.count > limits.answerBytes { throw FetchedNest.Overflow() }
            } catch {
                guard limits.steps == nil else { throw .tooLong }
                guard count > 0 else { throw tooLarge() }
                bytes.removeSubrange(start...)
                return false
            }
            count += 1
            if bytes.count <= limits.certainBytes { certainEnd = bytes.count }
        }
        return true
    }

    /// A single object exceeds the limits.
    private func tooLarge() -> FetchFailure {
        guard limits.steps == nil else { return .tooLong }
        return .fault(
            Fault(
                .unsupportedMessage,
                "One object, with what `include` nests in it, has more bytes than an answer may. Include less, and fetch "
                    + "the nested objects by themselves.", path: "/include"))
    }
}

extension Fault {
    fileprivate func at(_ path: String) -> Fault {
        var fault = self
        fault.path = fault.path ?? path
        return fault
    }
}
