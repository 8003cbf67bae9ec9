package import BrokerSQLite

/// Part of the store's interface: other targets name it without importing BrokerSQLite.
package typealias StoreError = BrokerSQLite.StoreError
typealias Connection = BrokerSQLite.Connection
typealias Statement = BrokerSQLite.Statement

extension Connection {
    /// A connection whose work is counted, with the functions of predicates.
    convenience init(store path: String, _ access: Access = .write, vfs: String? = nil) throws(StoreError) {
        try self.init(path: path, access, vfs: vfs)
        meter = WorkMeter()
        try PredicateFunctions.install(on: self)
    }

    /// Bounds what is read before the owner of the file is known: the model in a store is the largest value, and a
    /// table of 2,000 columns with the longest names and comments is the longest statement.
    func bounded() -> Connection { bounded(valueBytes: 64 << 20, schemaBytes: 16 << 20, memory: 256 << 20) }

    /// The meter of ``init(store:_:vfs:)``.
    var work: WorkMeter { unsafeDowncast(meter!, to: WorkMeter.self) }
}
