/// The unanswered requests that are no jobs (`ping`, `stats`, `model`, `await`), by the number that is their `tag`.
struct PendingRequests<Waiter: Sendable>: Sendable {
    private var requests: [Int: (frame: [UInt8], waiter: Waiter)] = [:]

    var isEmpty: Bool { requests.isEmpty }

    mutating func add(_ number: Int, frame: [UInt8], waiter: Waiter) { requests[number] = (frame, waiter) }

    /// Takes out the request that an answer with this `tag` is for; nil when it is none of ours.
    mutating func remove(tag: [UInt8]?) -> Waiter? {
        guard let tag, let number = Int(String(decoding: tag, as: UTF8.self)) else { return nil }
        return requests.removeValue(forKey: number)?.waiter
    }

    /// What must be sent again on a new connection, in order. They ask and change nothing, so that is safe.
    var frames: [[UInt8]] { requests.sorted { $0.key < $1.key }.map(\.value.frame) }

    mutating func removeAll() -> [Waiter] {
        defer { requests = [:] }
        return requests.sorted { $0.key < $1.key }.map(\.value.waiter)
    }
}
