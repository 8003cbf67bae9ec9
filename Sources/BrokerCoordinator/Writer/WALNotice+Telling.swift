internal import BrokerStore
internal import Logging

extension WALNotice {
    /// Logs the notice.
    ///
    /// - Parameter isOwnReader: a long fetch of the server is active.
    func tell(_ logger: Logger, isOwnReader: Bool) {
        switch self {
        case .held(let bytes):
            logger.warning(
                isOwnReader
                    ? "The store's log grows while a long fetch of this server runs; it is given back after that."
                    : "The store's log grows, because another program's read transaction stays open: find it and end it.",
                metadata: ["bytes": "\(bytes)"])
        case .released(let bytes):
            logger.notice("No reader holds the store's log any more.", metadata: ["bytes": "\(bytes)"])
        case .uncopied(let error):
            logger.warning(
                "The store's log cannot be copied into the database, and grows; what is committed is safe in it.",
                metadata: ["cause": "\(error)"])
        case .copied: logger.notice("The store's log is copied into the database again.")
        }
    }
}
