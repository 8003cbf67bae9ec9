internal import BrokerJSON
internal import BrokerModel

extension RecordBatch {
    /// Stages the records in a context.
    func stage(in context: inout StagingContext) throws(StagingRefusal) {
        var rest = records
        while let first = rest.first {
            let operation = operations[Int(first.operation)]
            let own = rest.prefix { $0.operation == first.operation }
            try context.stage(operation, own.map { ($0.json, $0.target.map { targets[Int($0)] }) })
            rest = rest.dropFirst(own.count)
            // Operations between the two have no records here, but belong to the payload like the others.
            for number in first.operation + 1..<(rest.first?.operation ?? first.operation + 1) {
                context.beginOperation(operations[Int(number)])
            }
        }
    }
}
