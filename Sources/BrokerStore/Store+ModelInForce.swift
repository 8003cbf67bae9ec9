internal import BrokerSchema
internal import BrokerModel
package import BrokerStaging

extension Store {
    /// The staging plan of the model in force in an existing store. Changes nothing.
    ///
    /// - Returns: nil when there is no store, or when it has no model.
    /// - Throws: ``StoreError`` when the store, or its model, cannot be read.
    package static func planInForce(path: String) throws(StoreError) -> StagingPlan? {
        try modelInForce(path: path).map { model throws(StoreError) in try plan(of: model, path) }
    }

    /// The same; nil when the plan has that model.
    package static func planInForce(path: String, unlike plan: StagingPlan) throws(StoreError) -> StagingPlan? {
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
