internal import BrokerJSON
internal import BrokerModel

extension StagingContext {
    /// Stages the values that the routes lead to.
    mutating func route(_ payload: JSONValue, _ tree: RouteTree) throws(StagingRefusal) {
        try tree.forEachPart(of: payload) { value, target throws(StagingRefusal) in
            try map(value, target.mapping!, target.parameters)
        }
    }
}
