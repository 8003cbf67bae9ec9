/// The jobs of one transaction with their places in the log, in merge order.
typealias JobBatch = [(place: LogPlace, job: ReadyJob)]
