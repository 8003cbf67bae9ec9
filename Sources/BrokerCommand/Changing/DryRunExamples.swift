import Broker
import BrokerJSON

/// Some keys of the objects that dry runs would change, by entity and change.
struct DryRunExamples {
    private static let keysOfList = 10
    /// The contract's words, in the order of the table.
    private static let words = ["inserted", "updated", "deleted"]

    /// The keys as JSON texts.
    private var keys: [String: [String: [[UInt8]]]] = [:]

    mutating func add(_ examples: RawJSON) {
        guard let document = try? JSONDocument(parsing: JSONText(copying: examples.bytes)) else { return }
        withExtendedLifetime(document) {
            for (entity, lists) in document.root.members {
                let name = String(decoding: entity.bytes, as: UTF8.self)
                for word in Self.words {
                    let room = Self.keysOfList - (keys[name]?[word]?.count ?? 0)
                    guard room > 0, let list = lists[word] else { continue }
                    keys[name, default: [:]][word, default: []] += list.elements.prefix(room).map(\.jsonText)
                }
            }
        }
    }

    /// A line for each entity and change: `Country deleted: "AD", "AE", … (246)`.
    ///
    /// - Parameter changes: the numbers of all changed objects.
    func lines(of changes: [String: Completion.Changes]) -> [String] {
        changes.sorted { $0.key < $1.key }.flatMap { entity, counts in
            zip(Self.words, [counts.inserted, counts.updated, counts.deleted]).compactMap { word, count in
                guard let keys = keys[entity]?[word], !keys.isEmpty else { return nil }
                let texts = keys.map { Self.shortened(String(decoding: $0, as: UTF8.self)) }
                let rest = count - keys.count
                return "\(entity) \(word): " + texts.joined(separator: ", ")
                    + (rest > 0 ? ", and \(rest.grouped) more" : "")
            }
        }
    }

    /// Characters of a key on a line.
    private static let longestKey = 60

    private static func shortened(_ key: String) -> String {
        key.count <= longestKey ? key : key.prefix(longestKey) + "…"
    }

    func write(to writer: inout JSONWriter) {
        writer.object { writer in
            for (entity, lists) in keys.sorted(by: { $0.key < $1.key }) {
                writer.key(entity)
                writer.object { writer in
                    for word in Self.words {
                        guard let list = lists[word] else { continue }
                        writer.key(word)
                        writer.array { writer in for key in list { writer.raw(key) } }
                    }
                }
            }
        }
    }
}
