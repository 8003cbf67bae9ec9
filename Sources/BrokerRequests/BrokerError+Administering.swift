package import Broker

extension BrokerError {
    /// - Throws: ``BrokerError/Code/unsupportedMessage`` for a path that is not absolute: the server runs in another folder.
    package static func checkBackupPath(_ file: String) throws(BrokerError) {
        guard file.utf8.first == UInt8(ascii: "/") else {
            throw refused(.unsupportedMessage, "The file of a backup is an absolute path; \"\(file)\" is none.")
        }
    }

    package static func unknown(_ parts: RemovedParts) -> BrokerError {
        refused(.unsupportedMessage, "Removed parts cannot be \"\(parts.rawValue)\": refuse, keep or drop.")
    }

    package static func unknown(_ action: AdminAction) -> BrokerError {
        refused(.unsupportedMessage, "There is no action \"\(action.rawValue)\".")
    }
}
