package import BrokerJSON
package import BrokerModel

/// One operation of a job. Names are as the client wrote them, and the model may not have them.
package struct JobOperation {
    /// The operation; names are as the client wrote them, and the model may not have them.
    package enum Action {
        case process(object: JSONValue?)
        case relate(object: JSONValue, relationship: JSONValue)
        /// - Parameters:
        ///   - actions: whether it may insert, update and delete.
        ///   - part: the name of the sync that this is a part of, and whether it is the last one.
        case sync(
            where: String?, arguments: JSONValue?, actions: (inserts: Bool, updates: Bool, deletes: Bool),
            part: (id: String, isLast: Bool)?)
        /// `json` is a whole payload, read by the mapping of that name, by the routes for that path, or by the
        /// routes without a path.
        case map(mapping: JSONValue?, path: JSONValue?)
        /// `json` is an array of keys.
        case delete
        case deleteMatching(where: String?, arguments: JSONValue?)
    }

    /// As the client wrote it; the model may not have it. Empty for a `map`.
    package var entity: String
    package var json: JSONValue
    package var action: Action
    /// A JSON Pointer (RFC 6901) to the entity's name in the message.
    package var entityPointer: String
    /// A JSON Pointer to the object with the operation's fields.
    package var pointer: String

    package init(
        entity: String, json: JSONValue, _ action: Action = .process(object: nil), entityPointer: String,
        pointer: String = ""
    ) {
        self.entity = entity
        self.json = json
        self.action = action
        self.entityPointer = entityPointer
        self.pointer = pointer
    }

    /// Whether the operation may, any number of times, read all objects of its entity, delete or unlink all objects that are
    /// linked to one, or rename an object to which all objects of another entity refer, however few bytes it has.
    package func isSearch(in model: Model) -> Bool {
        switch action {
        case .sync(_, _, let actions, let part): actions.deletes && part?.isLast ?? true
        case .deleteMatching: true
        case .process(let object): object != nil
        case .delete: model.index(ofEntity: entity).map(model.deletionReachesOthers) ?? false
        case .relate, .map: false
        }
    }

    /// Whether its records may end very many links, or delete very many objects: to do it again, a job must make them first.
    package func mayReachOthers(under plan: StagingPlan) -> Bool {
        switch action {
        case .process, .sync, .map: plan.linkKeys.mayReachOthers(json)
        case .relate(_, let relationship):
            plan.model.index(ofEntity: entity).map { plan.mayReachOthers($0, relationship) } ?? false
        case .delete, .deleteMatching: false
        }
    }
}
