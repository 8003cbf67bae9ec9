/// The surroundings of a connection that its state depends on, as they are at this moment.
protocol ConnectionConditions {
    /// The coordinator has room for another message of this connection.
    var coordinatorHasRoom: Bool { get }
    /// The client's process may have more answers unread.
    var answersHaveRoom: Bool { get }
    /// The client takes its answers.
    var leavesLittleUnread: Bool { get }
    /// Nothing is left to be sent.
    var isAllSent: Bool { get }
    /// After the end of its own side, the server may wait for the end of the client's.
    var mayLinger: Bool { get }
}
