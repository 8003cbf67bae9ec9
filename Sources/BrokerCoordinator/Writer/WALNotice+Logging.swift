internal import BrokerStore
internal import Logging

extension WALNotice {
    /// Logs the notice.
    ///
    /// - Parameters:
    ///   - ownReader: the server's own reader that is active.
    ///   - store: the path of the store.
    func log(to logger: Logger, ownReader: ReaderGate.LongReader?, store: String) {
        switch self {
        case .held(let bytes):
            let others = ownReader == nil ? WALReader.others(ofStoreAt: store) : []
            let why: Logger.Message =
                switch ownReader {
                case .fetch: "The store's WAL grows while a long fetch of this server runs; it is shortened after that."
                case .backup: "The store's WAL grows while a backup of this server runs; it is shortened after that."
                case nil where others.contains(where: \.isBackupTool):
                    """
                    The store's WAL grows, because a backup tool has not copied it: see whether it runs, and whether its \
                    disk has room.
                    """
                case nil:
                    "The store's WAL grows, because another program's read transaction stays open: find it and end it."
                }
            var metadata: Logger.Metadata = ["bytes": "\(bytes)"]
            if let reader = others.first(where: \.isBackupTool) ?? others.first {
                metadata["process"] = reader.process.map { "\($0)" }
                metadata["pid"] = reader.pid.map { "\($0)" }
            }
            logger.warning(why, metadata: metadata)
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
