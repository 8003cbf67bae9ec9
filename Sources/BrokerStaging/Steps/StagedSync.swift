/// The selection of a sync, and the changes that it may make.
package struct StagedSync: Sendable {
    package let selection: StagedSelection
    package var inserts = true
    package var updates = true
    package var deletes = true
    /// Set for one part of a sync that several jobs make up; nil for a sync in one job.
    package let part: SyncPart?

    package init(_ selection: StagedSelection, part: SyncPart?) {
        self.selection = selection
        self.part = part
    }

    /// The sync may ignore records of the entity.
    package var ignoresRecords: Bool { !inserts || !updates }
}

/// A part of a sync that several jobs make up. The last part deletes.
package struct SyncPart: Sendable {
    /// The client's name for the whole sync.
    package let id: String
    /// After this part, the sync deletes the selected objects that no part has named.
    package let isLast: Bool
    /// The entity, the predicate and its arguments as JSON text: equal for all parts.
    package let definition: [UInt8]

    package init(id: String, isLast: Bool, definition: [UInt8]) {
        self.id = id
        self.isLast = isLast
        self.definition = definition
    }
}
