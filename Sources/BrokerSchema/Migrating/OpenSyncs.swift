package import BrokerSQLite
internal import BrokerJSON

/// The syncs whose parts are still arriving. The definition of each begins with the name of its entity.
package struct OpenSyncs {
    private let connection: Connection

    package init(on connection: Connection) { self.connection = connection }

    /// Renames their entities: the next part will have the new name.
    ///
    /// - Parameter renamed: old names and new ones.
    package func rename(_ renamed: [(old: String, new: String)]) throws(StoreError) {
        guard !renamed.isEmpty else { return }
        var changed: [(number: Int64, definition: [UInt8])] = []
        for (number, definition) in try definitions() {
            for (old, new) in renamed where definition.starts(with: Self.beginning(old)) {
                changed.append((number, Self.beginning(new) + definition.dropFirst(Self.beginning(old).count)))
            }
        }
        guard !changed.isEmpty else { return }
        let write = try connection.prepare("UPDATE _broker_open_syncs SET definition = ?2 WHERE number = ?1")
        for (number, definition) in changed {
            write.bind(number, at: 1)
            write.bind(blob: definition, at: 2)
            try write.run()
        }
    }

    /// Whether one is a sync of the entity of that name.
    package func has(entity: String) throws(StoreError) -> Bool {
        try definitions().contains { $0.definition.starts(with: Self.beginning(entity)) }
    }

    private func definitions() throws(StoreError) -> [(number: Int64, definition: [UInt8])] {
        guard try connection.integer("SELECT 1 FROM sqlite_schema WHERE name = '_broker_open_syncs'") != nil else {
            return []
        }
        let read = try connection.prepare("SELECT number, definition FROM _broker_open_syncs")
        var found: [(number: Int64, definition: [UInt8])] = []
        while try read.step() { found.append((read.integer(0), Array(read.bytes(1)))) }
        return found
    }

    /// The beginning of the definition of a sync of that entity: `["Employee",`.
    private static func beginning(_ entity: String) -> [UInt8] {
        var writer = JSONWriter()
        writer.array { $0.string(entity) }
        return writer.bytes.dropLast() + [UInt8(ascii: ",")]
    }
}
