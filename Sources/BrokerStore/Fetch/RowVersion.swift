internal import BrokerStaging

/// The version of an object: a hash of what its own row stores, attributes and to-one links. Rows with the same content have the
/// same version, in every store and at any time.
package struct RowVersion {
    struct Value {
        let name: String
        /// In the shape.
        let column: Int
    }

    package static let byteCount = 32
    /// The member of a fetched object.
    static let name = "_version"

    private let entity: String
    private let values: [Value]

    init(entity: String, _ values: [Value]) {
        self.entity = entity
        // Whatever order the model has. The columns of one link stay in theirs.
        self.values = values.enumerated().sorted {
            let (one, other) = ($0.element.name.utf8, $1.element.name.utf8)
            return one.elementsEqual(other) ? $0.offset < $1.offset : one.lexicographicallyPrecedes(other)
        }.map(\.element)
    }

    func text(_ row: FetchedRow) -> String {
        var hasher = FieldHasher()
        hasher.add(entity)
        // An attribute that the model gains changes no version until it has a value.
        for value in values where !row.isNull(value.column) {
            hasher.add(value.name)
            hasher.add(row.cell(value.column))
        }
        return hasher.digits()
    }
}

extension FieldHasher {
    fileprivate mutating func add(_ cell: Cell) {
        add(UInt64(cell.kind.rawValue))
        switch cell.kind {
        case .text, .blob: add(UnsafeRawBufferPointer(cell.bytes))
        case .real: add(cell.real.bitPattern)
        default: add(UInt64(bitPattern: cell.integer))
        }
    }
}
