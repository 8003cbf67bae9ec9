internal import BrokerStaging
internal import BrokerStore
internal import BrokerWire

/// A fetch that waits for its turn, or whose objects are being sent.
struct PendingFetch: Sendable {
    let request: FetchRequest
    /// The ticket of the question.
    let ticket: Int
    let frame: FrameReference
    /// Its part of the budget of all waiting fetches.
    let share: BudgetShare

    /// The message around the objects. Each message of a stream says whether others follow.
    var envelope: FetchEnvelope {
        FetchEnvelope(beginning: ServerMessageWriter.objectsBeginning) {
            [tag = frame.tag, isStreamed = request.isStreamed] hasMore, last in
            ServerMessageWriter.objectsEnding(more: isStreamed || hasMore ? hasMore : nil, last: last, tag: tag)
        }
    }
}
