package import BrokerStore

/// The journal beside a store, as a start would find it.
package struct JournalFinding: Sendable {
    package enum State: Sendable {
        /// The store was not fed from a journal, and the server uses none.
        case unused
        /// A journal would be begun.
        case new
        /// The folder has the journal that the store was fed from.
        case present
        /// The store was fed from a journal that is not there.
        case missing
    }

    /// The path of the journal's folder.
    package let path: String
    package let state: State

    init(path: String, state: State) {
        self.path = path
        self.state = state
    }

    /// - Parameters:
    ///   - store: the path of the store, which may be absent.
    ///   - isKept: the server would keep a journal.
    /// - Throws: ``StoreError`` when the start would fail because of the journal.
    package init(store: String, isKept: Bool) throws(StoreError) {
        self = try JournalOpening.find(store, isKept: isKept)
    }

    /// The number of accepted jobs in the journal beside a store that it has not applied. Changes nothing.
    ///
    /// - Throws: ``StoreError`` when the journal cannot be read, or is not that of the store.
    package static func pendingJobs(store: String) throws(StoreError) -> Int {
        try JournalOpening.pendingJobs(store, isKept: true)
    }
}
