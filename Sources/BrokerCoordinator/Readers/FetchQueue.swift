/// Fetches that wait for a thread. Users take turns, and so do the connections of each, so that more connections give no user
/// more turns. A pure value.
struct FetchQueue<Task> {
    private var users: [UInt32: TurnQueue<Task>] = [:]

    mutating func append(_ task: Task, from source: Int, of user: UInt32) {
        users[user, default: TurnQueue()].append(task, from: source)
    }

    /// The next fetch of a user whose turn has come; nil when none waits.
    mutating func next(of user: UInt32) -> Task? {
        defer { if users[user]?.count == 0 { users[user] = nil } }
        return users[user]?.popFirst()
    }
}
