/// The jobs of one transaction with their sequences, in merge order.
typealias JobBatch = [(sequence: Int64, job: ReadyJob)]
