internal import BrokerJSON
package import BrokerModel

/// The treatment of a record that cannot be staged.
package enum InvalidRecordPolicy: String, Sendable {
    /// The job fails.
    case fail
    /// The smallest object that contains the fault is rejected and listed.
    case skip
}

/// The rejected records: the first ones are listed, the others are counted.
package struct RejectionList: Sendable {
    /// Limit on the listed faults, which bounds the size of an answer.
    package static let maximumListed = 10_000
    /// Memory in bytes of a listed fault until it is sent: its message and its path, as values and in several text
    /// copies on the way through the writer to the client.
    static let listedBytes = 1_500

    package private(set) var listed: [Rejection] = []
    /// By entity name, the count of those that are not listed.
    package private(set) var unlisted: [String: Int] = [:]

    init() {}

    /// The next one will be listed; otherwise its message is not used.
    var isListing: Bool { listed.count < Self.maximumListed }

    mutating func add(_ fault: Fault, at offset: Int) {
        if isListing {
            listed.append(Rejection(fault, at: offset))
        } else {
            unlisted[fault.entity ?? "", default: 0] += 1
        }
    }

    /// Returns the listed ones as faults with their paths, in payload order.
    func located(in document: JSONDocument) -> [Fault] {
        guard !listed.isEmpty else { return [] }
        let ordered = listed.sorted { $0.offset < $1.offset }
        let paths = ValuePaths(in: document).paths(of: ordered.map(\.offset))
        return zip(ordered, paths).map { $0.fault.at($1) }
    }

    /// Adds the rejections of a later part or of a later check; the first in the text stay listed.
    mutating func add(_ others: RejectionList) {
        unlisted.merge(others.unlisted, uniquingKeysWith: +)
        guard !others.listed.isEmpty else { return }
        listed = (listed + others.listed).sorted { $0.offset < $1.offset }
        for rejection in listed.dropFirst(Self.maximumListed) {
            unlisted[rejection.fault.entity ?? "", default: 0] += 1
        }
        listed.removeLast(max(0, listed.count - Self.maximumListed))
    }
}

/// A rejected record or nested object, with its offset in the text of the job.
package struct Rejection: Sendable {
    package let fault: Fault
    let offset: Int

    package init(_ fault: Fault, at offset: Int) {
        self.fault = fault
        self.offset = offset
    }
}

/// A value that is not stored as it was sent.
struct ValueNote {
    /// Index of the attribute; for an `ignoredKey`, of the relationship.
    let property: Int
    /// `inexact`, `ignoredValue`, `extraValue` or `ignoredKey`.
    let code: Warning.Code
    /// Where the value is in the text of the job; nil for a key.
    var offset: Int?
}

/// Counts such values of accepted records, and such keys, by entity, property and code.
struct ValueWarnings {
    private struct Subject: Hashable {
        let entity: Int
        let property: Int
        let code: Warning.Code
    }

    private var found: [Subject: (count: Int, offsets: [Int])] = [:]

    mutating func note(entity: Int, _ notes: [ValueNote]) {
        for note in notes {
            let subject = Subject(entity: entity, property: note.property, code: note.code)
            found[subject, default: (0, [])].count += 1
            guard let offset = note.offset, found[subject]!.offsets.count < Warning.mostPaths else { continue }
            found[subject]!.offsets.append(offset)
        }
    }

    /// Returns one warning for each property and code, in the order of the model.
    ///
    /// - Parameter document: the job, in which the first values have their paths.
    func warnings(_ model: Model, in document: JSONDocument) -> [Warning] {
        guard !found.isEmpty else { return [] }
        let offsets = Set(found.values.flatMap(\.offsets)).sorted()
        let paths = Dictionary(uniqueKeysWithValues: zip(offsets, ValuePaths(in: document).paths(of: offsets)))
        let sorted = found.sorted { left, right in
            (left.key.entity, left.key.property, left.key.code.rawValue)
                < (right.key.entity, right.key.property, right.key.code.rawValue)
        }
        return sorted.map { subject, values in
            let entity = model.entities[subject.entity]
            let name =
                subject.code == .ignoredKey
                ? entity.relationships[subject.property].name : entity.attributes[subject.property].name
            return Warning(
                subject.code, entity: entity.name, key: name, count: values.count,
                paths: values.offsets.compactMap { paths[$0] })
        }
    }
}

/// JSON Pointers (RFC 6901) of values, found by their offsets in one walk over the document.
///
/// Only faults and warnings need paths, so staging stores offsets and builds no other paths.
struct ValuePaths {
    private let document: JSONDocument

    init(in document: JSONDocument) { self.document = document }

    /// Returns the fault with the path of the value at that offset.
    static func located(_ fault: Fault, at offset: Int, in document: JSONDocument) -> Fault {
        fault.at(ValuePaths(in: document).paths(of: [offset]).first)
    }

    /// - Parameter offsets: ascending. An offset at which no value begins gets the path of the value around it.
    func paths(of offsets: [Int]) -> [String] {
        var walk = Walk(offsets: offsets)
        walk.visit(document.root)
        while walk.paths.count < offsets.count { walk.paths.append("") }
        return walk.paths
    }

    private struct Walk {
        let offsets: [Int]
        var paths: [String] = []
        var components: [String] = []

        mutating func visit(_ value: JSONValue) {
            // Every wanted offset before the end of this value is inside it, because earlier offsets are done.
            let end = value.kind == .string ? value.offset : value.offset + value.bytes.count - 1
            guard let wanted = next, wanted <= end else { return }
            while next == value.offset { found() }
            for (position, element) in value.elements.enumerated() {
                descend(String(position), element)
                if next.map({ $0 > end }) ?? true { return }
            }
            for member in value.members {
                descend(member.key.string ?? "", member.value)
                if next.map({ $0 > end }) ?? true { return }
            }
            while let wanted = next, wanted <= end { found() }
        }

        private var next: Int? { paths.count < offsets.count ? offsets[paths.count] : nil }

        private mutating func found() { paths.append(components.map { "/" + $0 }.joined()) }

        private mutating func descend(_ component: String, _ value: JSONValue) {
            components.append(component.asPointerToken)
            visit(value)
            components.removeLast()
        }
    }
}
