package import BrokerJSON

/// What a client expects of the object that its operation names. Valid as long as the document of the job.
package struct JobExpectation {
    package enum Condition {
        case absent
        case present
        case version(String)
        case matching(where: String, arguments: JSONValue?)
    }

    package let condition: Condition
    /// As the client wrote it.
    package let json: JSONValue

    package init(_ condition: Condition, json: JSONValue) {
        self.condition = condition
        self.json = json
    }
}

/// An expectation whose names the model has. The rows of its step name the object, if that has a key.
package struct StagedExpectation: Sendable {
    package enum Condition: Sendable {
        case absent
        case present
        case version(String)
        case matching(StagedSelection)
    }

    package let condition: Condition
    /// The operation's entity.
    package let entity: Int

    package init(_ condition: Condition, of entity: Int) {
        self.condition = condition
        self.entity = entity
    }
}
