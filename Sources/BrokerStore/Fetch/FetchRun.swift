internal import BrokerJSON
package import BrokerModel
package import BrokerStaging

/// One fetch: objects are read in batches, the nested objects of a batch are read by one query for each relationship,
/// and each object is written whole.
///
/// ``objects()`` returns one answer. For a streamed request it is called again while there are more, in the same
/// transaction; between two answers the run holds the rest of a batch (``FetchLimits/batchBytes``).
struct FetchRun {
    /// The number of objects whose nested objects are read together.
    private static let batchRows = 1_024

    private let request: FetchRequest
    private let limits: FetchLimits
    private let envelope: FetchEnvelope
    private let tree: FetchNode
    private let predicate: PredicateSQL?
    /// Finds the objects; of a sorted fetch, their row numbers.
    private let statement: Statement
    /// The order of a sorted fetch; nil before the first object is read.
    private var order: SortedRows?
    private let keyWriters: [ValueWriter]
    private let sql: FetchSQL
    private let connection: Connection
    private var position: FetchedPosition?
    private var batchRows = FetchRun.batchRows
    private var batch: Batch
    private var nextRow = 0
    private var readCount = 0
    private var bytes: [UInt8] = []
    private var count = 0
    private var lastRow: Int64?
    private var certainEnd: (offset: Int, row: Int64)?

    init(
        _ request: FetchRequest, on reader: StoreReader, _ limits: FetchLimits, _ envelope: FetchEnvelope,
        _ guardian: FetchGuard
    ) throws(StoreError) {
        let (plan, connection) = (reader.plan, reader.connection)
        self.request = request
        self.limits = limits
        self.envelope = envelope
        let entity = plan.model.entities[request.entity]
        keyWriters = (entity.isNamedByRowKey ? [] : entity.identity).map {
            plan.valueWriter(entity: request.entity, attribute: $0, .iso8601)
        }
        let columns = request.predicate == nil ? [] : try reader.longColumns()
        let predicate = request.predicate.map {
            PredicateSQL(
                $0, entity: request.entity, plan: plan, alias: ObjectShape.alias, charging: columns
            ) { guardian.mustEnd() }
        }
        self.predicate = predicate
        sql = FetchSQL(plan)
        self.connection = connection
        tree = try FetchNode(request, sql, connection)
        let text =
            if request.result == .count {
                sql.count(request, predicate)
            } else if request.sort.isEmpty {
                sql.objects(request, tree.reader.shape, predicate)
            } else {
                sql.order(request, predicate)
            }
        statement = try connection.prepare(text)
        batch = Batch(level: FetchedLevel(holeCount: tree.inclusions.count))
        var parameter = 1
        for cell in (request.key ?? []) + (request.after ?? []) {
            statement.bind(copying: cell.cell, at: parameter)
            parameter += 1
        }
        parameter = predicate?.bind(to: statement, from: parameter) ?? parameter
        statement.bind(Int64(Self.limit(of: request)), at: parameter)
        statement.bind(Int64(request.offset), at: parameter + 1)
    }

    private static func limit(of request: FetchRequest) -> Int {
        switch request.result {
        // One more, to know whether there are more.
        case .collection, .dictionary: min(request.limit, .max - 1) + 1
        case .object: min(1, request.limit)
        case .count: request.limit
        }
    }

    // MARK: - Answers

    /// The next answer. Not called again once there are no more objects, or after a failure.
    mutating func objects() throws -> FetchedObjects {
        let (opening, closing): (String, String) =
            switch request.result {
            case .collection: ("[", "]")
            case .dictionary: ("{", "}")
            case .object, .count: ("", "")
            }
        bytes = envelope.beginning + opening.utf8
        count = 0
        lastRow = nil
        certainEnd = nil
        let hasMore = request.result == .count ? try writeCount() : try writeRows()
        if count == 0, request.result == .object { bytes += "null".utf8 }
        let isCertain = bytes.count <= limits.certainBytes
        let last = hasMore || request.isStreamed ? try position(ofRow: lastRow) : nil
        var certain: FetchedObjects.End?
        if !isCertain, let certainEnd {
            certain = FetchedObjects.End(offset: certainEnd.offset, position: try position(ofRow: certainEnd.row))
        }
        return FetchedObjects(
            takeBytes(), closing: Array(closing.utf8), envelope, hasMore: hasMore, last: last, certainEnd: certain)
    }

    private mutating func writeCount() throws(StoreError) -> Bool {
        guard try statement.step() else { preconditionFailure("a count has a row") }
        bytes += Array(String(statement.integer(0)).utf8)
        statement.reset()
        return false
    }

    var fault: Fault? { predicate?.fault.map { $0.at($0.path ?? "/where") } }

    /// Moves the bytes out, so that they are not copied when their end is added.
    private mutating func takeBytes() -> [UInt8] {
        defer { bytes = [] }
        return bytes
    }

    /// - Returns: nil without a row.
    private mutating func position(ofRow number: Int64?) throws(StoreError) -> [UInt8]? {
        guard let number else { return nil }
        if position == nil { position = try FetchedPosition(in: request, sql, on: connection) }
        return try position?.json(ofRow: number)
    }

    /// Writes as many rows as the answer holds. Returns whether there are more objects; for a stream, whether another answer follows.
    private mutating func writeRows() throws -> Bool {
        while true {
            if nextRow == batch.level.count {
                guard !batch.isLast else {
                    statement.reset()
                    return batch.hasMore && !request.isStreamed
                }
                batch = try readBatch()
                nextRow = 0
            } else if try !write(nextRow..<min(nextRow + batchRows, batch.level.count)) {
                return true
            }
        }
    }

    // MARK: - Batches

    private struct Batch {
        var level: FetchedLevel
        var keys: [[UInt8]] = []
        /// The statement has no more rows, or the fetch needs none of them.
        var isLast = false
        var hasMore = false
    }

    private mutating func readBatch() throws(StoreError) -> Batch {
        var batch = Batch(level: FetchedLevel(holeCount: tree.inclusions.count))
        if !request.sort.isEmpty, order == nil {
            order = try SortedRows(
                statement, reading: sql.columns(tree.reader.shape.columns, of: request.entity), on: connection)
        }
        while batch.level.count < batchRows, batch.level.memory < limits.batchBytes {
            guard let row = try nextObject() else {
                batch.isLast = true
                break
            }
            guard request.result == .object || readCount < request.limit else {
                batch.isLast = true
                // With a limit of 0 nothing is fetched, so nothing is omitted.
                batch.hasMore = request.limit > 0
                break
            }
            _ = try batch.level.append(row, tree.reader)
            readCount += 1
            if request.result == .dictionary {
                batch.keys.append(tree.reader.shape.keyText(row, keyWriters))
            }
        }
        return batch
    }

    /// The statement that has the next object; nil after the last one.
    private mutating func nextObject() throws(StoreError) -> Statement? {
        guard order != nil else { return try statement.step() ? statement : nil }
        return try order?.next()
    }

    /// Writes some rows of a batch, with all their nested objects. Returns false when there is no room for those from ``nextRow`` on.
    private mutating func write(_ rows: Range<Int>) throws -> Bool {
        var nested: [FetchedNest]? = []
        if !tree.inclusions.isEmpty {
            nested = try tree.nests(of: batch.level.rowNumbers[rows][...], memory: limits.gatheredBytes)
        }
        guard let nested else {
            guard rows.count > 1, !limits.isBrief else { throw tooLarge() }
            // The nested objects of one row may be few.
            batchRows = max(1, rows.count / 2)
            let middle = rows.lowerBound + rows.count / 2
            guard try write(rows.lowerBound..<middle) else { return false }
            return try write(middle..<rows.upperBound)
        }
        for row in rows {
            let start = bytes.count
            let limit = count > 0 ? limits.answerBytes : limits.objectBytes
            if count > 0 { bytes.append(UInt8(ascii: ",")) }
            if request.result == .dictionary {
                var writer = JSONWriter(capacity: 32)
                batch.keys[row].withUnsafeBufferPointer { writer.string($0) }
                bytes += writer.bytes
                bytes.append(UInt8(ascii: ":"))
            }
            do {
                try batch.level.write(row, to: &bytes) { number, bytes in
                    try nested[number].write(of: row - rows.lowerBound, to: &bytes, limit: limit)
                }
                if bytes.count > limit { throw FetchedNest.Overflow() }
            } catch {
                guard !limits.isBrief else { throw FetchFailure.tooLong }
                guard count > 0 else { throw tooLarge() }
                bytes.removeSubrange(start...)
                // As many rows will fit the next answer; nested objects of more would be read in vain.
                batchRows = min(Self.batchRows, count)
                return false
            }
            count += 1
            nextRow = row + 1
            let number = batch.level.rowNumbers[row]
            lastRow = number
            if bytes.count <= limits.certainBytes { certainEnd = (bytes.count, number) }
        }
        return true
    }

    private func tooLarge() -> FetchFailure {
        guard !limits.isBrief else { return .tooLong }
        return .fault(
            Fault(
                .unsupportedMessage,
                "One object, with what `include` nests in it, has more bytes than an answer may. Include less, and fetch "
                    + "the nested objects by themselves.", path: "/include"))
    }
}

package enum FetchFailure: Error, Sendable {
    case fault(Fault)
    case store(StoreError)
    /// The fetch exceeds its limits. A brief one must be repeated with larger ones.
    case tooLong
    case stopped
}

/// The objects of a sorted fetch, in its order.
///
/// SQLite sorts the row numbers alone, and has given its temporary storage back before the first object is read. So an open
/// stream holds eight bytes for each of its objects, however large they are.
struct SortedRows {
    private let numbers: [Int64]
    private var position = 0
    private let row: Statement

    /// - Parameter order: finds the row numbers; its parameters are bound.
    init(_ order: Statement, reading sql: String, on connection: Connection) throws(StoreError) {
        var numbers: [Int64] = []
        while try order.step() { numbers.append(order.integer(0)) }
        self.numbers = numbers
        row = try connection.prepare(sql)
    }

    /// The statement that has the next row, which is valid until the next call; nil after the last one.
    mutating func next() throws(StoreError) -> Statement? {
        row.reset()
        guard position < numbers.count else { return nil }
        row.bind(numbers[position], at: 1)
        position += 1
        guard try row.step() else { preconditionFailure("a row of the same transaction is there") }
        return row
    }
}

/// Writes the position of a fetched object in the order of its fetch as JSON, in the form of `after`. Belongs to the
/// connection's thread.
///
/// The position is read by the row's number in the same transaction: an answer needs that of its last object only.
struct FetchedPosition {
    private let statement: Statement
    /// Of the sort terms.
    private let sorted: [ValueWriter]
    /// The key's attributes, with their names for a key of several; none for the row key.
    private let values: [(name: String, writer: ValueWriter)]

    init(in request: FetchRequest, _ sql: FetchSQL, on connection: Connection) throws(StoreError) {
        statement = try connection.prepare(sql.position(in: request))
        let plan = sql.plan
        let own = plan.model.entities[request.entity]
        // The model's form of a value is the one that reads as the same value, whatever the attribute's formats are.
        values = (own.isNamedByRowKey ? [] : own.identity).map {
            (own.attributes[$0].name, plan.valueWriter(entity: request.entity, attribute: $0, .model))
        }
        sorted = request.sort.map {
            plan.valueWriter(
                entity: plan.model.end(of: $0.path, from: request.entity), attribute: $0.attribute, .model)
        }
    }

    func json(ofRow number: Int64) throws(StoreError) -> [UInt8] {
        defer { statement.reset() }
        statement.bind(number, at: 1)
        guard try statement.step() else { preconditionFailure("a row of the same transaction is there") }
        var writer = JSONWriter(capacity: 32)
        guard !sorted.isEmpty else {
            writeKey(to: &writer)
            return writer.bytes
        }
        writer.array { writer in
            for (column, value) in sorted.enumerated() { value.write(statement.cell(column), to: &writer) }
            writeKey(to: &writer)
        }
        return writer.bytes
    }

    private func writeKey(to writer: inout JSONWriter) {
        switch values.count {
        case 0: writer.integer(statement.integer(sorted.count))
        case 1: values[0].writer.write(statement.cell(sorted.count), to: &writer)
        default:
            writer.object { writer in
                for (column, value) in values.enumerated() {
                    writer.key(value.name)
                    value.writer.write(statement.cell(sorted.count + column), to: &writer)
                }
            }
        }
    }
}

/// The objects of one request, in one or several answers of one read transaction. Used by one thread at a time.
///
/// The transaction begins with the first `next()`, and lasts until `end()`. A reader has one at a time.
package final class ObjectStream {
    private let request: FetchRequest
    private let reader: StoreReader
    private let limits: FetchLimits
    private let envelope: FetchEnvelope
    private let guardian: FetchGuard
    /// Nil before the first answer, and after the end.
    private var run: FetchRun?

    package init(
        _ request: FetchRequest, on reader: StoreReader, _ limits: FetchLimits = .part,
        in envelope: FetchEnvelope = .none, isWanted: @escaping () -> Bool = { true }
    ) {
        self.request = request
        self.reader = reader
        self.limits = limits
        self.envelope = envelope
        guardian = FetchGuard(reader.connection, limits, isWanted: isWanted)
    }

    /// Makes the next answer. Called again while that has more; not after a failure.
    package func next() throws(FetchFailure) -> FetchedObjects {
        do {
            return try guardian.watch {
                if run == nil {
                    try reader.connection.execute("BEGIN")
                    run = try FetchRun(request, on: reader, limits, envelope, guardian)
                }
                // Not optional chaining: `run` may not be copied, and a missing one is a programming error.
                return try run!.objects()
            }
        } catch let failure as FetchFailure {
            throw failure
        } catch {
            guard let error = error as? StoreError else { preconditionFailure("a fetch fails by the store: \(error)") }
            throw run?.fault.map { .fault($0) } ?? .store(error)
        }
    }

    /// Ends the transaction. Any number of calls.
    package func end() {
        // The statements first: one that is not reset would hold the snapshot.
        run = nil
        do throws(StoreError) {
            // Nothing was written, so there is nothing to commit.
            if !reader.connection.isAutocommit { try reader.connection.execute("ROLLBACK") }
        } catch {
            preconditionFailure("a read transaction ends: \(error)")
        }
    }
}
