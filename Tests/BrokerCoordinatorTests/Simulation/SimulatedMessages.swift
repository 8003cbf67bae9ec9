import BrokerJSON
import BrokerStore

@testable import BrokerCoordinator

/// A client's message. Messages are numbered, and the numbers replace their bytes.
struct SimulatedMessage {
    enum Kind {
        case job
        case cancel
        case await
        /// Waits until every job before it has ended.
        case barrier
        /// It is answered at once, and is no job.
        case nothing
    }

    var kind: Kind
    var client: Int
    var owner: JobOwner
    /// Nil of a job that brought none.
    var id: String?
    /// Two jobs of one id and one content are the same job.
    var content = 0
    /// It cannot be staged; a large one, for want of memory.
    var isFaulty = false
    /// The log gets it when it is staged.
    var isLarge = false
    var isSearch = false
    var wantsAcceptance = false
}

/// A message that has arrived at one run of the server, or was read from its log.
struct SimulatedDelivery {
    let message: Int
    let run: Int
    /// Nil for a job of the journal: it has no client.
    let connection: Int?
    /// In the merge order; a search may be given another.
    var ticket = 0
    /// It has its answer, and may have no other.
    var isAnswered = false
    var wasCancelled = false
}

struct SimulatedConnection {
    let number: Int
    let client: Int
    var toServer: [Int] = []
    /// Messages that are answered.
    var toClient: [Int] = []
    /// The server reads no more of it before there is room.
    var waitsForRoom = false
    /// The newest sequence of a `completed` that left.
    var newestCompleted: Int64 = 0
}

/// As `BrokerClient` behaves: a window of jobs without an outcome; those with ids are sent again on each new connection.
struct SimulatedClient {
    let owner: JobOwner
    let window: Int
    /// Jobs that were not sent yet.
    var waiting: [Int] = []
    /// In the order in which they were sent first.
    var inFlight: [Int] = []
    /// Messages to send again on this connection, before any other.
    var again: [Int] = []
    var connection: SimulatedConnection?
}
