internal import BrokerModel
public import BrokerStaging

extension Store {
    /// What the model in force in the store that is there makes of jobs, if it is another model than the plan's. Changes nothing.
    ///
    /// - Returns: nil when it is the same, when there is no store, or when it keeps no model of its own.
    /// - Throws: ``StoreError`` when the store, or the model that it keeps, cannot be read.
    public static func planInForce(path: String, unlike plan: StagingPlan) throws(StoreError) -> StagingPlan? {
        let file = try StoreFile(path: path)
        guard file.exists else { return nil }
        let connection = try look(at: file)
        guard case .store(let text, _) = try StoreFormat.kind(of: connection, path: path) else { return nil }
        let model = try StoreOpening.read(text, path)
        guard model.text != plan.model.text else { return nil }
        do throws(ModelError) {
            return try StagingPlan(model)
        } catch {
            throw StoreOpening.unreadable(error, path)
        }
    }
}
