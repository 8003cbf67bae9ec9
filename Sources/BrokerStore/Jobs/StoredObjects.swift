internal import BrokerModel
internal import BrokerStaging
internal import CSQLite

/// The objects of the store, one at a time, for an ``Interpreter``.
///
/// Inside the savepoint of the job, while its net changes record.
final class StoredObjects: ObjectStore {
    private let merger: Merger
    private let statements: ObjectStatements
    private let history: NetChanges
    private let savepoints: Savepoints
    private let pointer: String
    private let unique: UniqueValues
    private var rowKeys: [RowKeys] = []
    private var lastValue: OwnedCell?
    /// Objects that were given other identities: their tables, old and new keys.
    private(set) var renamings: [AppliedStep.Renaming] = []

    private(set) var deletions = 0

    private var plan: StagingPlan { merger.plan }
    private var model: Model { merger.plan.model }

    init(
        _ merger: Merger, _ savepoints: Savepoints, _ history: NetChanges, _ unique: UniqueValues, at pointer: String
    ) {
        self.merger = merger
        self.savepoints = savepoints
        self.history = history
        self.pointer = pointer
        statements = merger.objects
        self.unique = unique
    }

    // MARK: - Objects

    func object(_ entity: Int, identity: UnsafePointer<Cell>) throws(ApplyingFault) -> AppliedObject? {
        try running { () throws(StoreError) in
            try merger.object(of: identity, entity, charging: merger.historyTables.longColumns[entity]).map {
                applied($0, entity)
            }
        }
    }

    func object(_ entity: Int, key: [Cell]) throws(ApplyingFault) -> AppliedObject? {
        try running { () throws(StoreError) in
            guard let stored = try merger.storedKey(key, of: entity) else { return nil }
            return try merger.entities[model.topmost(of: entity)].find(
                stored, charging: merger.historyTables.longColumns[entity]
            ).map { applied($0, entity) }
        }
    }

    private func applied(_ object: StoredObject, _ entity: Int) -> AppliedObject {
        let table = model.topmost(of: entity)
        let concreteEntity = model.isInHierarchy(table) ? object.concreteEntity : table
        return AppliedObject(table: table, number: object.number, entity: concreteEntity)
    }

    func value(of attribute: Int, _ object: AppliedObject) throws(ApplyingFault) -> Cell {
        try running { () throws(StoreError) in
            let value = try statements.value(of: attribute, object.table, object.number) ?? OwnedCell(copying: .null)
            lastValue = value
            return value.cell
        }
    }

    func current(_ object: AppliedObject) throws(ApplyingFault) -> AppliedObject? {
        try running { () throws(StoreError) in
            guard model.isInHierarchy(object.table) else {
                return try statements.exists(object.table).first(object.number) { _ in object }
            }
            let name = try merger.entities[object.table].concreteEntityOfRow().first(object.number) { $0.text(0) }
            return name.flatMap(model.index(ofEntity:)).map {
                AppliedObject(table: object.table, number: object.number, entity: $0)
            }
        }
    }

    func required(_ entity: Int) -> [Int] { merger.entities[entity].upserts.required }

    func insert(
        _ entity: Int, _ cells: UnsafePointer<Cell>, links: [Int: AppliedObject], claimedAt offset: Int
    ) throws(ApplyingFault) -> AppliedObject {
        let keys = merger.rowKeys
        do throws(ApplyingFault) {
            let number = try writing(entity, cells, nil, at: offset) { () throws(StoreError) in
                try insert(entity, cells, links)
            }
            return AppliedObject(table: model.topmost(of: entity), number: number, entity: entity)
        } catch {
            merger.rowKeys = keys
            throw error
        }
    }

    private func insert(
        _ entity: Int, _ cells: UnsafePointer<Cell>, _ links: [Int: AppliedObject]
    ) throws(StoreError) -> Int64 {
        let present = plan.attributes(of: entity).filter {
            cells[$0].kind != .absent || plan.defaultCell(entity: entity, attribute: $0) != nil
        }
        let linked = links.keys.sorted()
        let number = try number(forNew: cells, entity)
        let insert = try statements.insert(entity, present + linked, isNumbered: number != nil)
        var parameter = 1
        if let number {
            insert.bind(number, at: 1)
            parameter = 2
        }
        for attribute in present {
            bind(attribute, of: cells, entity, to: insert, at: parameter)
            parameter += 1
        }
        for column in linked {
            insert.bind(links[column]!.number, at: parameter)
            parameter += 1
        }
        try insert.run()
        return number ?? sqlite3_last_insert_rowid(merger.connection.handle)
    }

    /// The number of a new row: the row key, or one by which nothing in the job knows another object. If the object was deleted
    /// before, that is its former one. Nil where that of SQLite will do.
    private func number(forNew cells: UnsafePointer<Cell>, _ entity: Int) throws(StoreError) -> Int64? {
        let table = model.topmost(of: entity)
        if model.entities[entity].hasRowKey { return try merger.takeRowKey(table) }
        guard let deleted = history.greatestDeletedNumbers[table] else { return nil }
        let key = try merger.forms.key(model.entities[table].identity.map { cells[$0] }, of: table)
        if let former = history.deletedNumber(table, key) {
            let isTaken = try statements.exists(table).first(former) { _ in true } ?? false
            if !isTaken { return former }
        }
        let isReached = try statements.reaches(table).first(deleted) { _ in true } ?? false
        return isReached || deleted == .max ? nil : deleted + 1
    }

    func update(
        _ object: AppliedObject, as entity: Int, _ cells: UnsafePointer<Cell>, claimedAt offset: Int
    ) throws(ApplyingFault) -> AppliedObject {
        let becomes = entity != object.entity
        let isKey = model.entities[entity].hasRowKey ? [] : model.entities[entity].identity
        let before = becomes ? model.entities[object.entity].attributeIndices : []
        var attributes = plan.attributes(of: entity).filter { attribute in
            guard !isKey.contains(attribute) else { return false }
            return cells[attribute].kind != .absent
                || becomes && !before.contains(attribute)
                    && plan.defaultCell(entity: entity, attribute: attribute) != nil
        }
        guard !attributes.isEmpty || becomes else { return object }
        if let extra = model.entities[entity].extra, !attributes.contains(extra) { attributes.append(extra) }
        try writing(entity, cells, object, at: offset) { () throws(StoreError) in
            let update = try statements.update(entity, attributes, becomes: becomes)
            for (position, attribute) in attributes.enumerated() {
                bind(attribute, of: cells, entity, to: update, at: position + 1)
            }
            update.bind(object.number, at: attributes.count + 1)
            try update.run()
        }
        return AppliedObject(table: object.table, number: object.number, entity: entity)
    }

    /// Binds the value that an object of the entity gets for an attribute.
    private func bind(
        _ attribute: Int, of cells: UnsafePointer<Cell>, _ entity: Int, to statement: Statement, at parameter: Int
    ) {
        if let extra = plan.extraColumns[entity], extra.column == attribute {
            return statement.bind(text: extra.entries(of: cells), at: parameter)
        }
        let cell = cells[attribute]
        statement.bind(
            cell.kind == .absent ? plan.defaultCell(entity: entity, attribute: attribute)! : cell, at: parameter)
    }

    func rename(_ object: AppliedObject, _ cells: UnsafePointer<Cell>) throws(ApplyingFault) -> AppliedObject {
        let entity = merger.entities[object.table]
        guard !entity.hasRowKey else {
            // The identity is an attribute like any other.
            merger.hasRenamed = true
            return object
        }
        let (new, isTaken) = try running { () throws(StoreError) -> (StoredKey, Bool) in
            let new = try merger.forms.key(entity.identity.map { cells[$0] }, of: object.table)
            let old = try key(of: object)
            guard new != old else { return (new, false) }
            if try entity.find(new) != nil { return (new, true) }
            let rename = try entity.rename()
            new.bind(to: rename, from: 1)
            old.bind(to: rename, from: 1 + entity.identity.count)
            merger.hasRenamed = true
            try rename.run()
            for update in try merger.objects.ownedKeys(object.table) {
                new.bind(to: update, from: 1)
                try update.run()
            }
            renamings.append(AppliedStep.Renaming(entity: object.table, old: old, new: new))
            return (new, false)
        }
        if isTaken { throw .invalid(UniqueValues.taken(merger.entities[object.entity].entity), offset: nil) }
        return try running { () throws(StoreError) in applied(try entity.find(new)!, object.table) }
    }

    func delete(_ object: AppliedObject) throws(ApplyingFault) { try delete([object.number], object.table) }

    private func delete(_ numbers: Set<Int64>, _ entity: Int) throws(ApplyingFault) {
        guard !numbers.isEmpty else { return }
        deletions += 1
        do {
            try Deletion(merger, at: pointer).delete(rows: [entity: numbers])
        } catch MergeFailure.fault(var fault) {
            // The path of the record takes the place of the operation's.
            fault.path = nil
            throw .invalid(fault, offset: nil)
        } catch {
            throw .ended(error)
        }
    }

    func touch(_ object: AppliedObject, namesLinks: Bool) throws(ApplyingFault) {
        if !namesLinks, history.knows(object.table, object.number) { return }
        try running { () throws(StoreError) in
            history.touch(
                object.table, concreteEntity: object.entity, object.number, try key(of: object),
                namesLinks: namesLinks)
        }
    }

    func key(of object: AppliedObject) throws(StoreError) -> StoredKey {
        let entity = merger.entities[object.table]
        if entity.hasRowKey { return StoredKey([.integer(object.number)]) }
        return try entity.key(ofRow: object.number) ?? StoredKey([])
    }

    // MARK: - Links

    func link(_ object: AppliedObject, _ relationship: Int, to destination: AppliedObject?) throws(ApplyingFault) {
        guard case .column(let column) = plan.layout.entities[object.table].forms[relationship] else { return }
        let back = plan.layout.entities[object.table].link(atColumn: column).oneToOneColumn
        if let back {
            let other = plan.layout.entities[object.table].link(atColumn: column).destination
            try unlink(other, back, from: object, except: destination)
            if let destination { try unlink(object.table, column, from: destination, except: object) }
        }
        guard let destination else { return try clear([object.number], object.table, column) }
        try set(object, column, to: destination, isOrdered: true)
        if let back { try set(destination, back, to: object, isOrdered: true) }
    }

    /// Sets the link at a column. A new link of an ordered relationship gets the next position if `isOrdered`.
    private func set(
        _ object: AppliedObject, _ column: Int, to destination: AppliedObject, isOrdered: Bool
    ) throws(ApplyingFault) {
        let isChanged = try running { () throws(StoreError) -> Bool in
            try statements.setLink(object.table, column).run(object.number, destination.number)
            return merger.connection.changes > 0
        }
        guard isChanged, isOrdered, statements.positionColumn(object.table, column) != nil else { return }
        let link = plan.layout.entities[object.table].link(atColumn: column)
        let inverse = model.entities[object.table].relationships[link.relationship].inverse!
        try append(object, to: destination, inverse)
    }

    private func clear(_ numbers: some Sequence<Int64>, _ entity: Int, _ column: Int) throws(ApplyingFault) {
        if plan.ownerColumns[entity] == column {
            history.ownedEntities = model.holders.owners
            defer { history.ownedEntities = [:] }
            return try delete(Set(numbers), entity)
        }
        try running { () throws(StoreError) in
            let clear = try statements.clearLink(entity, column)
            for number in numbers { try clear.run(number) }
        }
    }

    /// Ends the links at a column that lead to an object, but for one.
    private func unlink(
        _ entity: Int, _ column: Int, from destination: AppliedObject, except retained: AppliedObject?
    ) throws(ApplyingFault) {
        let linked = try linked(entity, column, destination)
        try clear(linked.filter { $0 != retained?.number }, entity, column)
    }

    private func linked(_ entity: Int, _ column: Int, _ object: AppliedObject) throws(ApplyingFault) -> [Int64] {
        try running { () throws(StoreError) -> [Int64] in
            let find = try statements.holders(entity, column)
            find.bind(object.number, at: 1)
            var numbers: [Int64] = []
            while try find.step() { numbers.append(find.integer(0)) }
            return numbers
        }
    }

    func set(
        _ elements: [AppliedObject], of object: AppliedObject, _ relationship: Int, replacing replaces: Bool,
        retaining retained: [AppliedObject]
    ) throws(ApplyingFault) {
        let model = model.entities[object.table].relationships[relationship]
        let isAppended = model.isOrdered && !replaces
        switch plan.layout.entities[object.table].forms[relationship] {
        case .column: return
        case .destinationColumn(let column):
            for element in elements { try set(element, column, to: object, isOrdered: isAppended) }
            if replaces {
                let staying = Set((elements + retained).map(\.number))
                let destination = plan.model.destinationTable(object.table, relationship)
                let linked = try linked(destination, column, object)
                try clear(linked.filter { !staying.contains($0) }, destination, column)
            }
        case .linkTable(let number, let isReversed):
            for element in elements { try add(element, to: object, relationship, number, isReversed, isAppended) }
            if replaces {
                let staying = Set((elements + retained).map(\.number))
                try endLinks(of: object, number, isReversed) { !staying.contains($0) }
            }
        }
        if model.isOrdered, replaces { try order(elements, of: object, relationship) }
    }

    func unlink(
        _ elements: [AppliedObject], from object: AppliedObject, _ relationship: Int
    ) throws(ApplyingFault) {
        let numbers = Set(elements.map(\.number))
        switch plan.layout.entities[object.table].forms[relationship] {
        case .column: return
        case .destinationColumn(let column):
            let destination = plan.model.destinationTable(object.table, relationship)
            let linked = try linked(destination, column, object)
            try clear(linked.filter(numbers.contains), destination, column)
        case .linkTable(let number, let isReversed):
            try endLinks(of: object, number, isReversed, where: numbers.contains)
        }
    }

    /// Adds a link in a link table, at both ends of a relationship that is its own inverse.
    private func add(
        _ element: AppliedObject, to object: AppliedObject, _ relationship: Int, _ number: Int, _ isReversed: Bool,
        _ isAppended: Bool
    ) throws(ApplyingFault) {
        let link = plan.layout.linkTables[number]
        let (source, destination) = isReversed ? (element, object) : (object, element)
        let isNew = try insertLink(number, source, destination)
        if link.isSymmetric, source != destination {
            let isNewBack = try insertLink(number, destination, source)
            if isNewBack, link.isOrdered { try append(object, to: element, relationship) }
        }
        guard isNew else { return }
        if isAppended { try append(element, to: object, relationship) }
        if !link.isSymmetric, isReversed ? link.isOrdered : link.isInverseOrdered,
            let inverse = model.entities[object.table].relationships[relationship].inverse
        {
            try append(object, to: element, inverse)
        }
    }

    private func insertLink(
        _ number: Int, _ source: AppliedObject, _ destination: AppliedObject
    ) throws(ApplyingFault) -> Bool {
        try running { () throws(StoreError) in
            try statements.insertLink(number).run(source.number, destination.number)
            return merger.connection.changes > 0
        }
    }

    private func endLinks(
        of object: AppliedObject, _ number: Int, _ isReversed: Bool, where isEnded: (Int64) -> Bool
    ) throws(ApplyingFault) {
        let directions = plan.layout.linkTables[number].isSymmetric ? [false, true] : [isReversed]
        try running { () throws(StoreError) in
            var ended: [Int64] = []
            for isReversed in directions {
                let links = try statements.links(number, isReversed: isReversed)
                links.bind(object.number, at: 1)
                while try links.step() {
                    if isEnded(links.integer(1)) { ended.append(links.integer(0)) }
                }
            }
            let delete = try statements.deleteLink(number)
            for link in ended { try delete.run(link) }
        }
    }

    // MARK: - Positions

    private func append(
        _ element: AppliedObject, to object: AppliedObject, _ relationship: Int
    ) throws(ApplyingFault) {
        try running { () throws(StoreError) in
            let position = try statements.lastPosition(object.table, relationship).first(object.number) {
                $0.isNull(0) ? 0 : $0.integer(0) + 1
            }
            try set(position ?? 0, element, object, relationship)
        }
    }

    func order(
        _ elements: [AppliedObject], of object: AppliedObject, _ relationship: Int
    ) throws(ApplyingFault) {
        try running { () throws(StoreError) in
            let ordered = Set(elements.map(\.number))
            let all = try statements.positions(object.table, relationship)
            all.bind(object.number, at: 1)
            var (linked, taken): (Set<Int64>, Set<Int64>) = ([], [])
            while try all.step() {
                linked.insert(all.integer(0))
                if !ordered.contains(all.integer(0)), !all.isNull(1) { taken.insert(all.integer(1)) }
            }
            var next: Int64 = 0
            for element in elements where linked.remove(element.number) != nil {
                while taken.contains(next) { next += 1 }
                try set(next, element, object, relationship)
                next += 1
            }
        }
    }

    private func set(
        _ position: Int64, _ element: AppliedObject, _ object: AppliedObject, _ relationship: Int
    ) throws(StoreError) {
        try statements.setPosition(object.table, relationship).run(object.number, element.number, position)
    }

    // MARK: - Records that are undone

    func mark() throws(ApplyingFault) {
        try running { () throws(StoreError) in try savepoints.record.begin() }
        history.mark()
        rowKeys.append(merger.rowKeys)
    }

    func accept() throws(ApplyingFault) {
        try running { () throws(StoreError) in try savepoints.record.end() }
        history.accept()
        rowKeys.removeLast()
    }

    func undo() throws(ApplyingFault) {
        guard !merger.connection.isAutocommit else {
            throw .ended(StoreError.givenUp)
        }
        try running { () throws(StoreError) in try savepoints.record.undoAndEnd() }
        history.rollBack()
        merger.rowKeys = rowKeys.removeLast()
    }

    // MARK: - Errors

    private func running<Value>(_ body: () throws(StoreError) -> Value) throws(ApplyingFault) -> Value {
        do throws(StoreError) {
            return try body()
        } catch {
            throw .ended(error)
        }
    }

    /// Writes a row. Where another object has a unique value that the record brings, that object's is parked, or the record
    /// is at fault.
    ///
    /// - Parameter object: nil for a new one.
    private func writing<Value>(
        _ entity: Int, _ cells: UnsafePointer<Cell>, _ object: AppliedObject?, at offset: Int,
        _ body: () throws(StoreError) -> Value
    ) throws(ApplyingFault) -> Value {
        while true {
            do throws(StoreError) {
                return try body()
            } catch {
                guard error.code == .constraint, !merger.connection.isAutocommit else {
                    throw .ended(error)
                }
                if try unique.free(entity, cells, object, claimedAt: offset) { continue }
                throw .invalid(refusal(error, entity, cells), offset: offset)
            }
        }
    }

    /// The fault of a record that the table refuses for another reason than the model: another program made or changed it.
    private func refusal(_ error: StoreError, _ entity: Int, _ cells: UnsafePointer<Cell>) -> Fault {
        let (name, statements) = (merger.entities[model.topmost(of: entity)].name, merger.entities[entity])
        let attributes = plan.layout.entities[entity].attributeCount
        let null =
            error.isOfNull ? statements.upserts.required.first { $0 >= attributes || cells[$0].kind == .null } : nil
        let remedy =
            error.isTooLarge
            ? "Send shorter values of this \(name)"
                + (plan.model.entities[entity].extra == nil ? "." : ", or fewer keys that the model does not name.")
            : "A table requires of this \(name) what the model does not know. Send a record that meets it, or look at the "
                + "table's constraints."
        var fault = Fault(
            .constraintViolation, "\(error.message) \(remedy)", entity: name,
            attribute: null.map(statements.name(ofColumn:)))
        fault.cause = error.sqliteMessage
        return fault
    }
}

/// The effect of a step that the interpreter applied, as the rest of the job needs it.
struct AppliedStep {
    /// An object with its key after the step.
    struct Named {
        let table: Int
        let key: StoredKey
    }

    struct Renaming {
        let entity: Int
        let old: StoredKey
        let new: StoredKey
    }

    /// By operation, the objects of its own records.
    let payload: [[Named?]]
    let renamings: [Renaming]
    /// No record was rejected.
    let isComplete: Bool
    /// The row numbers of the sync's objects that the records name, their keys, and identities: see `Interpreter`.
    let named: Set<Int64>
    private let namedKeys: [StoredKey]
    private let namedIdentities: [[OwnedCell]]

    init(_ interpreter: Interpreter, _ objects: StoredObjects) throws(StoreError) {
        var payload: [[Named?]] = []
        for operation in interpreter.payload {
            var named: [Named?] = []
            for object in operation {
                if let object {
                    named.append(Named(table: object.table, key: try objects.key(of: object)))
                } else {
                    named.append(nil)
                }
            }
            payload.append(named)
        }
        self.payload = payload
        renamings = objects.renamings
        isComplete = interpreter.rejected.isEmpty && interpreter.unlistedRejections.isEmpty
        named = interpreter.named
        namedIdentities = interpreter.namedIdentities
        var keys: [StoredKey] = []
        for object in interpreter.namedObjects { keys.append(try objects.key(of: object)) }
        namedKeys = keys
    }

    /// Calls `body` with each key by which a later job may name an object of the entity's table that the sync named.
    func forEachName(of entity: Int, _ merger: Merger, _ body: (StoredKey) throws -> Void) throws {
        for key in namedKeys { try body(key) }
        // Another job may insert these objects before the last part arrives.
        for identity in namedIdentities {
            let identity = try merger.forms.stored(identity.map(\.cell), of: entity)
            try body(merger.entities[entity].hasRowKey ? .naming(identity) : StoredKey(identity))
        }
    }
}
