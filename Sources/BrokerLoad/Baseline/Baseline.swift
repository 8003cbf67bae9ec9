internal import BrokerFastJSON
package import BrokerJSON

/// The least that the work costs: one thread, the same parser, prepared upserts, and nothing of Broker around them.
package struct Baseline {
    /// The database's path; an existing file is replaced.
    package var path: String
    package var records: RecordOptions
    /// Rows in a transaction at most.
    package var transactionRows = 10_000

    package init(path: String, records: RecordOptions) {
        self.path = path
        self.records = records
    }

    /// The work of a loop, and its time.
    package struct Result: Sendable {
        package let records: Int
        package let seconds: Double
        /// Processor seconds of the thread.
        package let processorSeconds: Double

        package var recordsPerSecond: Double { Double(records) / seconds }
    }

    /// Loads payloads into one new database, in one pass per payload.
    ///
    /// - Parameter passes: each an array of JSON arrays of records.
    /// - Returns: a result for each pass.
    package func load(_ passes: [[JSONText]]) throws(LoadError) -> [Result] {
        let database = try BaselineDatabase(path: path, options: records)
        var results: [Result] = []
        for payloads in passes {
            let start = monotonicNanoseconds()
            let processor = ProcessUsage.ofThisThread
            let rows = try load(payloads, into: database)
            results.append(
                Result(
                    records: rows, seconds: Double(monotonicNanoseconds() - start) / 1e9,
                    processorSeconds: ProcessUsage.ofThisThread - processor))
        }
        return results
    }

    private func load(_ payloads: [JSONText], into database: BaselineDatabase) throws(LoadError) -> Int {
        var rows = 0
        try database.begin()
        for payload in payloads {
            let document: JSONDocument
            do throws(JSONError) {
                document = try JSONDocument(fast: payload)
            } catch {
                throw LoadError(.failed, "The baseline's payload is no JSON: \(error)")
            }
            for record in document.root.elements {
                if rows > 0, rows % transactionRows == 0 {
                    try database.commit()
                    try database.begin()
                }
                try database.upsert(record)
                rows += 1
            }
            withExtendedLifetime(document) {}
        }
        try database.commit()
        return rows
    }

    /// The payloads of a run's jobs, without the message around them.
    package static func payloads(_ options: JobOptions, jobs: Int) -> [JSONText] {
        var source = JobSource(options)
        return (0..<jobs).map { _ in JSONText(copying: source.nextRecords()) }
    }
}
