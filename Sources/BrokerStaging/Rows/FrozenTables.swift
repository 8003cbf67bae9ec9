/// The frozen tables of a `TableSet`, by entity index; nil without rows of the entity.
///
/// Not a collection: the functions of collections read each element by a coroutine, which allocates its frame on the heap.
// They do not change, so any thread may read them.
package struct FrozenTables: Sequence, @unchecked Sendable {
    private let storage: TableStorage

    init(_ storage: TableStorage) { self.storage = storage }

    package var count: Int { storage.header.count }
    package var underestimatedCount: Int { count }
    package var indices: Range<Int> { 0..<count }

    package subscript(entity: Int) -> FrozenTable? {
        precondition(entity >= 0 && entity < count, "no entity has the index \(entity)")
        return storage.tables[entity].map { FrozenTable($0, in: storage) }
    }

    package func makeIterator() -> Iterator { Iterator(self) }

    package struct Iterator: IteratorProtocol {
        private let tables: FrozenTables
        private var entity = 0

        fileprivate init(_ tables: FrozenTables) { self.tables = tables }

        package mutating func next() -> FrozenTable?? {
            guard entity < tables.count else { return nil }
            defer { entity += 1 }
            return .some(tables[entity])
        }
    }
}
