internal import BrokerJSON
internal import BrokerModel
internal import BrokerStaging

/// A node in the tree of included relationships.
final class FetchNode {
    struct Inclusion {
        let statement: Statement
        let node: FetchNode
        let isToMany: Bool
    }

    let reader: ObjectReader
    let inclusions: [Inclusion]

    private convenience init(
        _ inclusions: [FetchRequest.Inclusion], of entity: Int, _ style: ObjectShape.Style, _ sql: FetchSQL,
        _ connection: Connection
    ) throws(StoreError) {
        let shape = ObjectShape(entity: entity, including: inclusions.map(\.relationship), style, sql.plan)
        try self.init(shape, inclusions, of: entity, style, sql, connection)
    }

    /// The node of the fetched objects.
    convenience init(
        _ request: FetchRequest, _ sql: FetchSQL, _ connection: Connection
    ) throws(StoreError) {
        let style = ObjectShape.Style(request.names, request.dates)
        let isCounted = request.result == .count
        if request.selection.isEmpty, !isCounted {
            try self.init(request.inclusions, of: request.entity, style, sql, connection)
        } else {
            let shape = ObjectShape(selecting: isCounted ? [] : request.selection, of: request.entity, style, sql.plan)
            try self.init(shape, [], of: request.entity, style, sql, connection)
        }
    }

    private init(
        _ shape: ObjectShape, _ inclusions: [FetchRequest.Inclusion], of entity: Int, _ style: ObjectShape.Style,
        _ sql: FetchSQL, _ connection: Connection
    ) throws(StoreError) {
        reader = try ObjectReader(shape, of: entity, sql, on: connection)
        var nodes: [Inclusion] = []
        for inclusion in inclusions {
            let relationship = sql.plan.model.entities[entity].relationships[inclusion.relationship]
            let node = try FetchNode(inclusion.inclusions, of: relationship.destination, style, sql, connection)
            let statement = try connection.prepare(
                sql.destinations(of: inclusion.relationship, of: entity, node.reader.shape))
            nodes.append(Inclusion(statement: statement, node: node, isToMany: relationship.isToMany))
        }
        self.inclusions = nodes
    }

    /// The nested objects of the rows with those numbers; nil when they exceed the memory.
    func nests(of rowNumbers: ArraySlice<Int64>, memory: Int) throws(FetchFailure) -> [FetchedNest]? {
        var memory = memory
        return try nests(of: rowNumbers, &memory)
    }

    private func nests(of rowNumbers: ArraySlice<Int64>, _ memory: inout Int) throws(FetchFailure) -> [FetchedNest]? {
        guard !inclusions.isEmpty else { return [] }
        var numbers = JSONWriter(capacity: rowNumbers.count * 8)
        numbers.array { writer in
            for number in rowNumbers { writer.integer(number) }
        }
        var nests: [FetchedNest] = []
        for inclusion in inclusions {
            guard var nest = try inclusion.read(numbers.bytes, memory) else { return nil }
            memory -= nest.memory
            guard let inner = try inclusion.node.nests(of: nest.level.rowNumbers[...], &memory) else { return nil }
            nest.inner = inner
            nests.append(nest)
        }
        return nests
    }
}

extension FetchNode.Inclusion {
    /// - Parameter numbers: the numbers of the near rows, as JSON.
    fileprivate func read(_ numbers: [UInt8], _ memory: Int) throws(FetchFailure) -> FetchedNest? {
        var nest = FetchedNest(level: FetchedLevel(holeCount: node.inclusions.count), isToMany: isToMany)
        defer { statement.reset() }
        return try fetching { () throws(StoreError) in
            statement.bind(text: numbers, at: 1)
            while try statement.step() {
                let row =
                    if let known = nest.level.row(ofNumber: statement.integer(0)) {
                        known
                    } else {
                        try nest.level.append(statement, node.reader)
                    }
                nest.links.append(row, of: Int(statement.integer(node.reader.shape.columns.count)))
                if nest.memory > memory { return nil }
            }
            return nest
        }
    }
}

/// The objects of one included relationship of some rows, with their own nested objects.
struct FetchedNest {
    /// The text exceeds its limit.
    struct Overflow: Error {}

    var level: FetchedLevel
    var links = FetchedLinks()
    let isToMany: Bool
    var inner: [FetchedNest] = []

    init(level: FetchedLevel, isToMany: Bool) {
        self.level = level
        self.isToMany = isToMany
    }

    var memory: Int { level.memory + links.memory }

    /// Writes the nested objects of a near row: an array, or an object or null.
    func write(of near: Int, to bytes: inout [UInt8], limit: Int) throws(Overflow) {
        let rows = links.rows(of: near)
        if isToMany { bytes.append(UInt8(ascii: "[")) }
        if rows.isEmpty, !isToMany { bytes += "null".utf8 }
        for (position, row) in rows.enumerated() {
            if position > 0 {
                guard isToMany else { break }
                bytes.append(UInt8(ascii: ","))
            }
            try level.write(row, to: &bytes) { (number, bytes) throws(Overflow) in
                try inner[number].write(of: row, to: &bytes, limit: limit)
            }
            guard bytes.count <= limit else { throw Overflow() }
        }
        if isToMany { bytes.append(UInt8(ascii: "]")) }
    }
}
