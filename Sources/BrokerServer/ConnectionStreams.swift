internal import BrokerCoordinator
internal import DequeModule

/// The streamed fetches of one connection, and which of them may be asked for its next part. A value.
///
/// One open stream at a time makes a part, so that at most one part more than the unread bytes that a client may have is
/// in memory. One stream at a time is opened: opening may wait for other streams, and an open stream must not wait with it.
struct ConnectionStreams {
    private var streams: [Int: FetchStream] = [:]
    /// Those that have not been asked, and those that wait for room, in their turns.
    private var new = Deque<Int>()
    private var waiting = Deque<Int>()
    /// The stream that was asked for its first part.
    private var opening: Int?
    /// The open stream that was asked for its next part.
    private var making: Int?

    var all: [FetchStream] { Array(streams.values) }
    var isEmpty: Bool { streams.isEmpty }

    mutating func add(_ stream: FetchStream) {
        streams[stream.number] = stream
        new.append(stream.number)
    }

    /// A part has come.
    ///
    /// - Parameter hasMore: the stream waits for room for the next one.
    mutating func came(_ number: Int, hasMore: Bool) {
        if opening == number { opening = nil }
        if making == number { making = nil }
        if hasMore { waiting.append(number) } else { streams[number] = nil }
    }

    /// The stream to ask when there is room; nil when none may be asked now.
    mutating func next() -> FetchStream? {
        if making == nil, let number = waiting.popFirst() {
            making = number
            return streams[number]
        }
        if opening == nil, let number = new.popFirst() {
            opening = number
            return streams[number]
        }
        return nil
    }

    /// Whether ``next()`` returns a stream.
    var isReady: Bool { making == nil && !waiting.isEmpty || opening == nil && !new.isEmpty }
}
