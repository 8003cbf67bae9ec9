package import BrokerJSON

/// One operation of a job with records or keys; the model knows its names.
package struct StagingOperation {
    package enum Action {
        /// `json` is a record, or an array of records.
        case process
        /// `json` is read by that mapping: a record, an array of records, or a dictionary of records.
        case map(mapping: Int, PathParameters?)
        /// `json` is a payload; the routes say where its objects are.
        case route(RouteTree)
        /// `json` is a record for the object of that key.
        case change(object: JSONValue)
        /// `json` is the value of that relationship for the object of that key.
        case relate(object: JSONValue, relationship: Int)
        /// `json` is an array of keys, which only name objects.
        case name
    }

    package let entity: Int
    /// A value in the job's document.
    package let json: JSONValue
    package let action: Action
    /// Staging notes each object of the entity that the `json` names, also inside records whose contents do not count.
    let gathersNames: Bool

    package init(entity: Int, json: JSONValue, _ action: Action = .process, gathersNames: Bool = false) {
        self.entity = entity
        self.json = json
        self.action = action
        self.gathersNames = gathersNames
    }

    /// Returns the entity whose table has the objects of the `json`; nil if their tables differ.
    func objectTable(_ plan: StagingPlan) -> Int? {
        switch action {
        case .relate(_, let relationship): plan.entities[entity].relationships[relationship].destinationTable
        case .map, .route: nil
        case .process, .change, .name: plan.model.topmost(of: entity)
        }
    }

    var isMerged: Bool {
        switch action {
        case .process, .map, .route: true
        case .change, .relate, .name: false
        }
    }
}
