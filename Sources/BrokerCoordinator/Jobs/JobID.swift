internal import BrokerModel

/// A job's id as a key: compared byte by byte, as the ledger does.
typealias JobID = ExactText
