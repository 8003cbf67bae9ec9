internal import BrokerSchema
internal import BrokerModel
package import BrokerStaging

extension Store {
    /// The staging plan of the model in force in an existing store. Changes nothing.
    ///
    /// - Returns: nil when there is no store, when it has no model, or when that is the model of `plan`.
    /// - Throws: ``StoreError`` when the store, or its model, cannot be read.
    package static func planInForce(
        path: String, unlike plan: StagingPlan? = nil
    ) throws(StoreError) -> StagingPlan? {
        guard let model = try modelInForce(path: path), model.text != plan?.model.text else { return nil }
        do throws(ModelError) {
            return try StagingPlan(model)
        } catch {
            throw StoreOpening.unreadable(error, path)
        }
    }

    private static func modelInForce(path: String) throws(StoreError) -> Model? {
        let file = try StoreFile(path: path)
        guard file.exists else { return nil }
        let connection = try look(at: file)
        guard let text = try StoreFormat.modelInForce(of: connection, path: path) else { return nil }
        return try StoreOpening.read(text, path)
    }
}
