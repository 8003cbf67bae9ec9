internal import BrokerJSON
package import BrokerModel

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
