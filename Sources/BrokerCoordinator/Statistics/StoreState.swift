internal import BrokerModel

/// Whether the store takes writes, for `stats`.
enum StoreState {
    case serving
    /// It takes none at the moment: with a journal, or while another program has locked it, jobs wait; else they fail.
    case waiting(cause: String)
    /// It takes none any more.
    case failed(cause: String)
    /// It takes no more entries of a shared log; reads go on.
    case halted(cause: String)

    var name: String {
        switch self {
        case .serving: "serving"
        case .waiting: "waiting"
        case .failed: "failed"
        case .halted: "halted"
        }
    }

    var isFailed: Bool { if case .failed = self { true } else { false } }

    /// A text for people.
    var cause: String? {
        switch self {
        case .serving: nil
        case .waiting(let cause), .failed(let cause), .halted(let cause): cause
        }
    }
}
