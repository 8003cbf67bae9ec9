/// The unanswered requests that are no jobs (`ping`, `stats`, `jobs`, `model`, `await`, `fetch`, `bookmark`, `cancel`, `admin`), by the number that
/// is their `tag`.
struct PendingRequests<Waiter: Sendable>: Sendable {
    private struct Request: Sendable {
        let frame: [UInt8]
        let waiter: Waiter
        let isSentOnce: Bool
        var wasSent: Bool
    }

    private var requests: [Int: Request] = [:]

    var count: Int { requests.count }
    var isEmpty: Bool { requests.isEmpty }

    /// - Parameters:
    ///   - isSentOnce: it changes something, and must not be sent again.
    ///   - isSent: it is written at once.
    mutating func add(_ number: Int, frame: [UInt8], waiter: Waiter, isSentOnce: Bool, isSent: Bool) {
        requests[number] = Request(frame: frame, waiter: waiter, isSentOnce: isSentOnce, wasSent: isSent)
    }

    mutating func remove(_ number: Int) -> Waiter? { requests.removeValue(forKey: number)?.waiter }

    /// The unanswered request that an answer with this `tag` is for; nil when it is none of ours.
    func number(tag: [UInt8]?) -> Int? {
        guard let tag, let number = Int(String(decoding: tag, as: UTF8.self)) else { return nil }
        return requests[number] == nil ? nil : number
    }

    /// The frames of all, in order, to be written now. What was sent before asks and changes nothing, so that is safe.
    mutating func sendAll() -> [[UInt8]] {
        for number in requests.keys { requests[number]?.wasSent = true }
        return requests.sorted { $0.key < $1.key }.map(\.value.frame)
    }

    /// Takes out what was sent and must not be sent again, in order.
    mutating func removeSentOnce() -> [Waiter] {
        let gone = requests.filter { $0.value.isSentOnce && $0.value.wasSent }.sorted { $0.key < $1.key }
        for (number, _) in gone { requests[number] = nil }
        return gone.map(\.value.waiter)
    }

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
