internal import BrokerModel

/// A link of a link table, as row numbers in the staged tables of the table's two entities.
@frozen package struct StagedLink: Sendable {
    package internal(set) var source: UInt32
    package internal(set) var destination: UInt32
    /// The offset in the text of the latest record that asserted the link.
    let sourceOffset: UInt32
    /// The source changes with the link.
    package fileprivate(set) var isNamedBySource = true
    /// The destination has a relationship for the link, and changes with it.
    package fileprivate(set) var isNamedByDestination = false

    init(source: UInt32, destination: UInt32, sourceOffset: UInt32) {
        self.source = source
        self.destination = destination
        self.sourceOffset = sourceOffset
    }
}

/// One record's assertion about a one-to-one relationship: the row's partner, or none.
struct StagedPair {
    let entity: Int
    var row: Int
    let column: Int
    /// A row of the other entity; nil ends the link.
    var partner: Int?
    let sourceOffset: UInt32
}

/// A to-many relationship of one object whose links end, but for those that the same value names.
package struct StagedReplacement: Sendable {
    package let entity: Int
    package internal(set) var row: Int
    package let relationship: Int
    /// Offset of its record.
    let sourceOffset: UInt32

    package var set: ToManySet { ToManySet(entity: entity, row: row, relationship: relationship) }
}

/// The to-many relationship of one object, by its staged row.
package struct ToManySet: Hashable, Sendable {
    package let entity: Int
    package let row: Int
    package let relationship: Int
}

/// An assertion that an object has a place in an ordered to-many relationship of another: after those named earlier.
package struct StagedListPosition: Sendable {
    /// The entity whose relationship it is.
    package let entity: Int
    package let relationship: Int
    /// The row of the object with the list.
    package internal(set) var row: Int
    /// A row of the destination.
    package internal(set) var element: Int
    /// A record of the object with the list asserts it, and not one of the element.
    let isNamedByList: Bool
    /// Offset of the asserting record.
    let sourceOffset: UInt32

    package var set: ToManySet { ToManySet(entity: entity, row: row, relationship: relationship) }
}

extension StagingPlan {
    /// Returns the entity whose table has the element.
    func destinationTable(of position: StagedListPosition) -> Int {
        entities[position.entity].relationships[position.relationship].destinationTable
    }
}

/// What the records of a part of a job assert: rows, links, and rejections.
struct StagedContent: ~Copyable {
    let plan: StagingPlan
    let policy: InvalidRecordPolicy
    /// One table per entity that was met.
    let tables: StagedTables
    /// By link table index.
    var links: [[StagedLink]]
    var pairs: [StagedPair] = []
    var replacements: [StagedReplacement] = []
    var listPositions: [StagedListPosition] = []
    var rejections = RejectionList()
    /// Why the records have to be applied one after the other; nil when sets of their rows have the same result.
    private(set) var reason: InterpretationReason?
    /// Nil unless the job asks for its objects.
    var payload: StagedPayload?

    init(_ plan: StagingPlan, _ policy: InvalidRecordPolicy, keepsPayload: Bool) {
        self.plan = plan
        self.policy = policy
        tables = StagedTables(plan)
        links = Array(repeating: [], count: plan.layout.linkTables.count)
        payload = keepsPayload ? StagedPayload() : nil
    }

    /// Notes that the records have to be applied one after the other; the first reason counts.
    mutating func note(_ other: InterpretationReason?) { reason = reason ?? other }
}

/// What the records of a job assert about links, when each assertion stands alone: it is not repeated, and no other one
/// contradicts it. Such assertions have the same result in any order.
extension StagedContent {
    /// Resolves the assertions of all records, and notes whether they have to be applied one after the other.
    mutating func resolveLinks() {
        if !resolvePairs() { note(.links) }
        nameLinks()
        if reason == nil, !replacements.isEmpty || !listPositions.isEmpty, !areCertain() { note(.links) }
        if !listPositions.isEmpty { listPositions = orderedPositions() }
    }

    /// Writes an assertion into a to-one column.
    ///
    /// - Returns: whether the column has another one.
    @inline(__always)
    static func isContested(_ link: Cell, in cell: UnsafeMutablePointer<Cell>) -> Bool {
        let known = cell.pointee
        cell.pointee = link
        return known.kind != .absent && (known.kind != link.kind || known.kind == .object && known.row != link.row)
    }

    // MARK: - One to one

    /// Pairs the rows.
    ///
    /// - Returns: false when a row has several partners.
    private func resolvePairs() -> Bool {
        var isCertain = true
        for pair in pairs {
            let link = plan.layout.entities[pair.entity].link(atColumn: pair.column)
            let asserted =
                pair.partner.map { Cell.object(row: $0, sourceOffset: pair.sourceOffset) }
                ?? .unlinked(sourceOffset: pair.sourceOffset)
            if Self.isContested(asserted, in: tables.cell(pair.entity, pair.row, pair.column)) { isCertain = false }
            guard let partner = pair.partner, let back = link.oneToOneColumn else { continue }
            let other = Cell.object(row: pair.row, sourceOffset: pair.sourceOffset)
            if Self.isContested(other, in: tables.cell(link.destination, partner, back)) { isCertain = false }
        }
        return isCertain
    }

    // MARK: - To many

    /// Notes of each link between objects that both have a relationship for it that all of them name it whose records name
    /// links, whichever record asserted it.
    private mutating func nameLinks() {
        for (number, link) in plan.layout.linkTables.enumerated() where link.hasInverse {
            for index in links[number].indices {
                let one = links[number][index]
                links[number][index].isNamedBySource = tables[link.source].pointee.namings[Int(one.source)].namesLinks
                links[number][index].isNamedByDestination =
                    tables[link.destination].pointee.namings[Int(one.destination)].namesLinks
            }
        }
    }

    /// Whether the sets that are replaced, and the lists, are each asserted by one record.
    private func areCertain() -> Bool {
        var replaced: [ToManySet: UInt32] = [:]
        for replacement in replacements {
            guard replaced.updateValue(replacement.sourceOffset, forKey: replacement.set) == nil else { return false }
        }
        return areNamedByOwner(replaced) && areNamedByOneSide()
    }

    /// Whether all links of the replaced sets are asserted by the records that replace them.
    private func areNamedByOwner(_ replaced: [ToManySet: UInt32]) -> Bool {
        struct Relationship: Hashable {
            let entity: Int
            let relationship: Int
        }
        let relationships = Set(replaced.keys.map { Relationship(entity: $0.entity, relationship: $0.relationship) })
        for one in relationships {
            func isNamedByOwner(_ row: Int, at offset: UInt32) -> Bool {
                let set = ToManySet(entity: one.entity, row: row, relationship: one.relationship)
                return replaced[set].map { $0 == offset } ?? true
            }
            switch plan.layout.entities[one.entity].forms[one.relationship] {
            case .column: continue
            case .destinationColumn(let column):
                let destination = plan.entities[one.entity].relationships[one.relationship].destinationTable
                guard tables.exists(destination) else { continue }
                for row in 0..<tables[destination].pointee.rowCount {
                    let cell = tables.cell(destination, row, column).pointee
                    if cell.kind == .object, !isNamedByOwner(cell.row, at: cell.sourceOffset) { return false }
                }
            case .linkTable(let table, let isReversed):
                if plan.layout.linkTables[table].isSymmetric { return false }
                let isCertain = links[table].allSatisfy { link in
                    isNamedByOwner(Int(isReversed ? link.destination : link.source), at: link.sourceOffset)
                }
                if !isCertain { return false }
            }
        }
        return true
    }

    /// Whether each list is asserted by one record of its object, or by records of its elements.
    private func areNamedByOneSide() -> Bool {
        var known: [ToManySet: (isNamedByList: Bool, sourceOffset: UInt32)] = [:]
        for position in listPositions {
            let naming = (position.isNamedByList, position.sourceOffset)
            guard let first = known.updateValue(naming, forKey: position.set) else { continue }
            guard first.isNamedByList == naming.0, !naming.0 || first.sourceOffset == naming.1 else { return false }
        }
        return true
    }

    /// Each element once in each list, by list and in list order.
    private func orderedPositions() -> [StagedListPosition] {
        struct Element: Hashable {
            let set: ToManySet
            let element: Int
        }
        var named: Set<Element> = []
        let first = listPositions.filter { named.insert(Element(set: $0.set, element: $0.element)).inserted }
        func key(_ index: Int) -> (Int, Int, Int, Int) {
            (first[index].entity, first[index].relationship, first[index].row, index)
        }
        return first.indices.sorted { key($0) < key($1) }.map { first[$0] }
    }
}

/// Why the records of a step are applied one after the other, and their rows are not merged as sets.
package enum InterpretationReason: String, CaseIterable, Sendable {
    /// The operation names its object.
    case object
    /// A record deletes its object.
    case tombstone
    /// Several records assert a link, a set or a list, or one asserts it twice.
    case links
    /// Records of several entities name one object, or one of an abstract entity.
    case entity
    /// A later record has what the object could not be made without.
    case required
    /// Several records with a time of change name one object; or one is not newer than its object, and names links.
    case modified
    /// Several records with unique values name one object.
    case unique
    /// Several records name one object, and one of them has keys or values for `_extra`.
    case extra
    /// A sync may not insert, or not update.
    case roles
    /// An object that must exist, or a value that it must have, is missing.
    case missing
    /// The store does not take a row: mostly, another object has its unique value.
    case constraint
    /// An owned object has another owner, or its deletion reaches other objects.
    case owned
}

/// The objects of the records in each operation's `json`, in payload order. Recorded only for a job that asks for its
/// objects (`reply: objects`).
package struct StagedPayload: Sendable {
    /// One operation.
    package struct Operation: Sendable {
        fileprivate var places: [(table: UInt32, row: UInt32)] = []

        /// The table (by entity index) and the staged row of each record or bare key; nil for one without an object of
        /// its own.
        package var objects: some RandomAccessCollection<(table: Int, row: Int)?> {
            places.lazy.map { $0.row == UInt32.max ? nil : (Int($0.table), Int($0.row)) }
        }

        package var count: Int { places.count }
    }

    /// In payload order.
    package private(set) var operations: [Operation] = []

    /// Memory in bytes of each record, with the growth of an array.
    static let bytesPerRecord = 2 * MemoryLayout<(UInt32, UInt32)>.stride

    mutating func begin() { operations.append(Operation()) }

    mutating func note(_ object: (table: Int, row: Int)?) {
        operations[operations.count - 1].places.append(
            object.map { (UInt32($0.table), UInt32($0.row)) } ?? (0, UInt32.max))
    }

    /// Adds the operations of a later part.
    ///
    /// - Parameter rows: by entity index and the part's row, the row in the united tables.
    mutating func add(_ part: StagedPayload, translating rows: [[Int]]) {
        for operation in part.operations {
            begin()
            for object in operation.objects { note(object.map { ($0.table, rows[$0.table][$0.row]) }) }
        }
    }
}
