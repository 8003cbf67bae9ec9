import Broker

/// The outcome of a file's records.
struct Report: CustomStringConvertible {
    private var jobs = 0
    private var duplicates = 0
    private var inserted = 0
    private var rejected = 0

    mutating func add(_ completion: Completion, of batch: Batch) {
        jobs += 1
        if completion.isDuplicate { duplicates += 1 }
        inserted += completion.changes.values.reduce(0) { $0 + $1.inserted }
        for rejection in completion.rejections {
            rejected += 1
            // The path begins with /json/INDEX.
            let parts = (rejection.path ?? "").split(separator: "/")
            let line = parts.count > 1 ? Int(parts[1]).map { batch.lines[$0] } : nil
            print("line \(line ?? 0): \(rejection.code): \(rejection.message)")
        }
    }

    var description: String {
        "\(jobs) jobs, \(duplicates) of them applied before; \(inserted) records inserted, \(rejected) rejected"
    }
}
