internal import BrokerStore
internal import Logging

extension WALNotice {
    /// Logs the notice.
    ///
    /// - Parameter ownReader: the server's own reader that is active.
    func log(to logger: Logger, ownReader: ReaderGate.LongReader?) {
        switch self {
        case .held(let bytes):
            let why: Logger.Message =
                switch ownReader {
                case .fetch: "The store's WAL grows while a long fetch of this server runs; it is shortened after that."
                case .backup: "The store's WAL grows while a backup of this server runs; it is shortened after that."
                case nil:
                    "The store's WAL grows, because another program's read transaction stays open: find it and end it."
                }
            logger.warning(why, metadata: ["bytes": "\(bytes)"])
        case .released(let bytes):
            logger.notice("No reader holds the store's WAL any more.", metadata: ["bytes": "\(bytes)"])
        case .uncopied(let error):
            logger.warning(
                "The store's WAL cannot be copied into the database, and grows; what is committed is safe in it.",
                metadata: ["cause": "\(error)"])
        case .copied: logger.notice("The store's WAL is copied into the database again.")
        }
    }
}
