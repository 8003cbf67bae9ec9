public import BrokerSQLite

/// A part of the store's interface: other targets name it without importing BrokerSQLite.
public typealias StoreError = BrokerSQLite.StoreError
typealias Connection = BrokerSQLite.Connection
typealias Statement = BrokerSQLite.Statement

extension Connection {
    /// A connection whose work is counted, with the functions of predicates.
    convenience init(store path: String, _ access: Access = .write, vfs: String? = nil) throws(StoreError) {
        try self.init(path: path, access, vfs: vfs)
        meter = WorkMeter()
        try PredicateFunctions.install(on: self)
    }

    /// The meter of ``init(store:_:vfs:)``.
    var work: WorkMeter { unsafeDowncast(meter!, to: WorkMeter.self) }
}
