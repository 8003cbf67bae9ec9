internal import BrokerModel
public import BrokerStaging

extension Store {
    /// What the model in force in the store that is there makes of jobs. Changes nothing.
    ///
    /// - Returns: nil when there is no store, or when it holds no model.
    /// - Throws: ``StoreError`` when the store, or the model that it holds, cannot be read.
    public static func planInForce(path: String) throws(StoreError) -> StagingPlan? {
        try modelInForce(path: path).map { model throws(StoreError) in try plan(of: model, path) }
    }

    /// The same, if it is another model than the plan's.
    public static func planInForce(path: String, unlike plan: StagingPlan) throws(StoreError) -> StagingPlan? {
        guard let model = try modelInForce(path: path), model.text != plan.model.text else { return nil }
        return try Self.plan(of: model, path)
    }

    private static func modelInForce(path: String) throws(StoreError) -> Model? {
        let file = try StoreFile(path: path)
        guard file.exists else { return nil }
        let connection = try look(at: file)
        guard let text = try StoreFormat.modelInForce(of: connection, path: path) else { return nil }
        return try StoreOpening.read(text, path)
    }

    private static func plan(of model: Model, _ path: String) throws(StoreError) -> StagingPlan {
        do throws(ModelError) {
            return try StagingPlan(model)
        } catch {
            throw StoreOpening.unreadable(error, path)
        }
    }
}
