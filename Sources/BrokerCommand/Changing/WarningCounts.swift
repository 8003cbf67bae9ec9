import Broker
import BrokerJSON

/// The warnings of all jobs, each once with the number of its occurrences.
struct WarningCounts {
    /// A warning without its count, in the order in which they came first.
    private var kinds: [Completion.Warning] = []
    private var counts: [Completion.Warning: Int] = [:]

    /// Keys that are printed for one code and entity; the others are counted.
    private static let listedKeys = 10

    mutating func add(_ warning: Completion.Warning) {
        var kind = warning
        kind.count = nil
        if counts[kind] == nil { kinds.append(kind) }
        counts[kind, default: 0] += warning.count ?? 1
    }

    /// One line for each code and entity.
    var lines: [String] {
        var groups: [Completion.Warning: [Completion.Warning]] = [:]
        var order: [Completion.Warning] = []
        for kind in kinds {
            var group = kind
            group.key = nil
            if groups[group] == nil { order.append(group) }
            groups[group, default: []].append(kind)
        }
        return order.map { line($0, groups[$0] ?? []) }
    }

    func count(of code: Completion.Warning.Code) -> Int {
        kinds.filter { $0.code == code }.reduce(0) { $0 + count($1) }
    }

    private func count(_ kind: Completion.Warning) -> Int { counts[kind] ?? 0 }

    private func line(_ group: Completion.Warning, _ kinds: [Completion.Warning]) -> String {
        let entity = group.entity ?? ""
        let total = kinds.reduce(0) { $0 + count($1) }
        let isOne = kinds.count == 1
        switch group.code {
        case .inexact:
            return isOne
                ? "\(kinds[0].key ?? "") of \(entity) does not hold a value exactly, \(Self.times(total)); \(Self.remedy)"
                : "\(kinds.count) attributes of \(entity) do not hold values exactly; \(Self.remedy): "
                    + list(kinds) { $0 }
        case .ignoredValue: return "values of \(entity) were not valid, and not stored: " + list(kinds) { $0 }
        case .ignoredKey: return "keys in \(entity) name no object, and were ignored: " + list(kinds) { $0 }
        case .unknownKey:
            guard isOne, let key = kinds[0].key else {
                return "the model does not name \(kinds.count) keys of \(entity): " + list(kinds, Self.quoted)
            }
            // In a path, a key that has a dot itself is in quotation marks.
            let hasDot = key.hasSuffix("\"") && key.contains(".")
            let isPath = key.contains(".") && !key.hasPrefix("\"")
            return "the model does not name the \(isPath ? "path \(key)" : "key \(Self.quoted(key))") of \(entity), "
                + Self.times(total) + (hasDot ? "; a dot in the model leads into an object" : "")
        case .objectNotFound: return "\(total) \(total == 1 ? "key names" : "keys name") no \(group.entity ?? "object")"
        case .deletionSkipped: return "no \(group.entity ?? "object") was deleted, because a record was skipped"
        default: return "\(group.code.rawValue), \(Self.times(total))"
        }
    }

    private static let remedy = "decimal keeps every digit, and a date as many as its \"precision\""

    /// The most frequent ones first.
    private func list(_ kinds: [Completion.Warning], _ named: (String) -> String) -> String {
        let sorted = kinds.enumerated().sorted {
            (-count($0.element), $0.offset) < (-count($1.element), $1.offset)
        }
        let listed = sorted.prefix(Self.listedKeys).map {
            "\(named($0.element.key ?? "")) \(Self.times(count($0.element)))"
        }
        let rest = kinds.count - listed.count
        return listed.joined(separator: ", ") + (rest > 0 ? ", and \(rest) more, which --json lists" : "")
    }

    private static func quoted(_ key: String) -> String { key.hasSuffix("\"") ? key : "\"\(key)\"" }

    private static func times(_ count: Int) -> String { count == 1 ? "once" : "\(count) times" }

    /// Each warning as an element of an array.
    func write(to writer: inout JSONWriter) {
        for kind in kinds {
            writer.object { writer in
                for (key, value) in [("code", kind.code.rawValue), ("entity", kind.entity), ("key", kind.key)] {
                    guard let value else { continue }
                    writer.key(key)
                    writer.string(value)
                }
                writer.key("count")
                writer.integer(count(kind))
            }
        }
    }
}
