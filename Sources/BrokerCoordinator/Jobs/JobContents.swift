internal import BrokerJSON
internal import BrokerModel
internal import BrokerStaging

/// A summary of a job for people: its operations, and the entities that these name. Costs no allocation for one operation.
struct JobContents: Sendable {
    /// More entities are not named.
    private static let mostEntities = 8
    private static let longestName = 80
    /// The operations of the protocol; their positions are bits of ``operationBits``.
    private static let operations = ["process", "relate", "sync", "map", "delete"]

    private var operationBits: UInt8 = 0
    private var first = ""
    private var others: [String] = []

    init(_ operations: ShortList<JobOperation>) {
        first = operations.first?.entity ?? ""
        for operation in operations {
            operationBits |= 1 << operation.action.position
            if !operation.entity.hasSameBytes(as: first), others.count < Self.mostEntities {
                Self.add(operation.entity, to: &others)
            }
        }
    }

    private static func add(_ name: String, to names: inout [String]) {
        if !names.contains(where: { name.hasSameBytes(as: $0) }) { names.append(name) }
    }

    var operationNames: [String] {
        Self.operations.enumerated().filter { operationBits >> $0.offset & 1 == 1 }.map(\.element)
    }

    /// - Parameter changed: entities that the job changed; those of a `map` are only known then.
    func entityNames(_ changed: [String]) -> [String] {
        var names: [String] = []
        for name in [first] + others + changed where !name.isEmpty { Self.add(name, to: &names) }
        return names.prefix(Self.mostEntities).map {
            String(String.UnicodeScalarView($0.unicodeScalars.prefix(Self.longestName)))
        }
    }
}

extension JobOperation.Action {
    /// In `JobContents.operations`.
    fileprivate var position: UInt8 {
        switch self {
        case .process: 0
        case .relate: 1
        case .sync: 2
        case .map: 3
        case .delete, .deleteMatching: 4
        }
    }
}
