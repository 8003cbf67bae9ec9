/// Counts the work of a connection's statements. Belongs to the connection's thread.
package protocol StatementMeter: AnyObject {
    /// - Throws: `overworked` when no statement may begin.
    func check() throws(StoreError)
    /// - Parameter instructions: those of a statement that has ended (`SQLITE_STMTSTATUS_VM_STEP`).
    func charge(ended instructions: Int)
}
