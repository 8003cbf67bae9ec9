/// The unanswered requests that are no jobs (`ping`, `stats`, `model`, `await`), by the number that is their `tag`.
struct PendingRequests<Waiter: Sendable>: Sendable {
    private var requests: [Int: (frame: [UInt8], waiter: Waiter)] = [:]

    var count: Int { requests.count }
    var isEmpty: Bool { requests.isEmpty }

    mutating func add(_ number: Int, frame: [UInt8], waiter: Waiter) { requests[number] = (frame, waiter) }

    mutating func remove(_ number: Int) -> Waiter? { requests.removeValue(forKey: number)?.waiter }

    /// The unanswered request that an answer with this `tag` is for; nil when it is none of ours.
    func number(tag: [UInt8]?) -> Int? {
        guard let tag, let number = Int(String(decoding: tag, as: UTF8.self)) else { return nil }
        return requests[number] == nil ? nil : number
    }

    /// What must be sent again on a new connection, in order. They ask and change nothing, so that is safe.
    var frames: [[UInt8]] { requests.sorted { $0.key < $1.key }.map(\.value.frame) }

    /// The oldest one.
    var first: (number: Int, frame: [UInt8])? {
        requests.min { $0.key < $1.key }.map { ($0.key, $0.value.frame) }
    }

    var last: Int? { requests.keys.max() }

    mutating func removeAll() -> [Waiter] {
        defer { requests = [:] }
        return requests.sorted { $0.key < $1.key }.map(\.value.waiter)
    }
}
