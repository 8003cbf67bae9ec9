internal import BrokerModel

/// The compiled predicate of records that delete their objects (`tombstone` of the model).
struct Tombstone: Sendable {
    private let predicate: RecordPredicate

    /// Returns nil when the entity has none.
    ///
    /// - Parameter patterns: those of the model.
    /// - Throws: the fault in the predicate.
    init?(of entity: Int, in model: Model, _ patterns: ModelPatterns) throws(ModelError) {
        guard let text = model.entities[entity].tombstone else { return nil }
        let message: String
        do throws(Fault) {
            let checked = try patterns.predicate(text, of: entity, in: model)
            if let predicate = RecordPredicate(checked) {
                self.predicate = predicate
                return
            }
            message = "It asks for relationships, and a record is asked for its own attributes alone. Compare those."
        } catch {
            message = error.message
        }
        let name = model.entities[entity].name
        throw ModelError(
            faults: [ModelFault("\"tombstone\" of \(name): \(message)", at: model.entities[entity].place)])
    }

    func asks(for attribute: Int) -> Bool { predicate.attributes.contains(attribute) }

    func isMet(budget: inout WorkBudget, _ value: (Int) -> Cell) throws(Fault) -> Bool {
        try predicate.matches(budget: &budget, value)
    }
}
