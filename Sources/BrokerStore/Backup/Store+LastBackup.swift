internal import BrokerSchema

/// The time of the newest backup, which the store remembers for its operator.
extension Store {
    /// In milliseconds since 1970; nil when none was made, or none could be noted.
    package func lastBackup() throws(StoreError) -> Int64? {
        try StoreMeta(connection: connection).value(of: .backedUpAt).flatMap { Int64($0) }
    }

    /// Notes a backup, in a transaction of its own. Does not wait for a lock.
    package func noteBackup(at milliseconds: Int64) throws(StoreError) {
        do throws(StoreError) {
            try begin()
            try StoreMeta(connection: connection).set(.backedUpAt, to: String(milliseconds))
            try commit()
        } catch {
            rollback()
            throw error
        }
    }
}
