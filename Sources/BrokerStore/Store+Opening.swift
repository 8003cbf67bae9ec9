package import BrokerSchema
package import BrokerStaging

extension Store {
    /// The changes that opening the store with that model would make; nil when the store would be made. Changes nothing.
    ///
    /// - Throws: ``StoreError`` when it could not be opened for another reason than a refused change.
    package static func changesOfOpening(
        path: String, plan: StagingPlan, removal: RemovalPolicy
    ) throws(StoreError) -> [StoreChange]? {
        let file = try StoreFile(path: path)
        try SQLiteLibrary.check()
        try file.checkAccess()
        return file.exists ? try look(at: file, plan, removal).changes : nil
    }
}
