import BrokerJSON
import BrokerSchema

extension StoreChange {
    /// The change, and what is lost by it.
    var lines: [String] {
        let line = "\(verdict.rawValue): \(self.line)"
        guard let loss else { return [line] }
        let more = loss.count > Int64(loss.examples.count) ? "; …" : ""
        return [
            line,
            "  \(loss.text) \(verdict == .refused ? "would be lost by --drop" : loss.count == 1 ? "is lost" : "are lost"): "
                + "\(loss.examples.joined(separator: "; "))\(more)",
        ]
    }

    /// Changes as JSON, with whether a server would open the store.
    ///
    /// - Parameter isMade: whether they were made; nil where that is not asked.
    static func json(_ changes: [StoreChange], isMade: Bool? = nil) -> String {
        var writer = JSONWriter()
        writer.object { writer in
            writer.key("opens")
            writer.bool(!changes.contains { $0.verdict == .refused })
            if let isMade {
                writer.key("migrated")
                writer.bool(isMade)
            }
            writer.key("changes")
            writer.array { writer in
                for change in changes { change.write(to: &writer) }
            }
        }
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}

extension StoreLoss {
    /// The count and the kind.
    var text: String { "\(count) \(count == 1 ? String(kind.rawValue.dropLast()) : kind.rawValue)" }
}
