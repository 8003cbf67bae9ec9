package import BrokerJSON

/// Changes of attributes by their stored values: objects by the names of attributes. Valid as long as the document of the job.
package struct JobAdjustment {
    package let increment: JSONValue?
    package let append: JSONValue?
    /// The operation has a record, too, which is applied after it.
    package let hasRecord: Bool

    package init(increment: JSONValue?, append: JSONValue?, hasRecord: Bool) {
        self.increment = increment
        self.append = append
        self.hasRecord = hasRecord
    }

    /// The attributes' names and what they are changed by, in the order of the text.
    var changes: [(name: JSONValue, value: JSONValue, appends: Bool)] {
        let increments = increment?.members.map { ($0.key, $0.value, false) } ?? []
        return increments + (append?.members.map { ($0.key, $0.value, true) } ?? [])
    }
}

/// What a `relate` does with the links of a to-many relationship, instead of what the model says.
package enum LinkChange: String, Sendable, CaseIterable {
    case add
    case replace
    case remove
}
