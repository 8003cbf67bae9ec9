package import Broker
internal import BrokerWire

extension Job {
    /// The content of the message. The same job gives the same bytes, so that it is known as the same when sent again.
    ///
    /// - Parameter id: nil asks the server to make one.
    /// - Throws: ``BrokerError/Code/invalidJSON`` when a text of an operation is not exactly one JSON value; for what the server
    ///   would refuse whatever its model is, the server's code.
    package func content(id: JobID?, wantsAcceptance: Bool) throws(BrokerError) -> [UInt8] {
        if let id, id.text.utf8.starts(with: JobMessage.reservedIDPrefix.utf8) {
            throw .refused(
                .unsupportedMessage, "Ids that begin with \"\(JobMessage.reservedIDPrefix)\" are the server's own.")
        }
        if let count = trace?.utf8.count, count > JobMessage.longestTrace {
            throw .refused(
                .unsupportedMessage, "A trace has at most \(JobMessage.longestTrace) bytes; this one has \(count).")
        }
        var message = JobMessageWriter(id: id?.text, operations: try operationMessages())
        message.onInvalid = try word(onInvalid, "onInvalid")
        message.unknownKeys = try word(unknownKeys ?? defaultUnknownKeys, "unknownKeys")
        message.isDryRun = isDryRun
        message.maximumDeletions = try maximumDeletions?.message()
        message.bookmark = try bookmark?.message()
        message.reply = try word(reply, "reply")
        if reply == .objects { message.dates = try word(dates, "dates") }
        message.notify = wantsAcceptance ? [.accepted, .completed] : .completed
        message.isLenient = isLenient
        message.trace = trace
        return message.content()
    }

    private var defaultUnknownKeys: UnknownKeys {
        operations.contains { $0.records?.hasEncodedMembers == true } ? .fail : .warn
    }

    private func word<Word: RawRepresentable<String>>(
        _ word: some RawRepresentable<String>, _ what: String
    ) throws(BrokerError) -> Word {
        guard let known = Word(rawValue: word.rawValue) else { throw .unknownWord(word.rawValue, of: what) }
        return known
    }

    private func operationMessages() throws(BrokerError) -> [JobMessageWriter.Operation] {
        guard !operations.isEmpty else { throw .refused(.unsupportedMessage, "The job has no operations.") }
        if let only = operations.first, operations.count == 1 {
            return [try only.message(at: "", isLenient: isLenient, levels: 1)]
        }
        // A value of an operation is inside the message, the array `operations` and the operation.
        var messages: [JobMessageWriter.Operation] = []
        for (index, operation) in operations.enumerated() {
            messages.append(try operation.message(at: "/operations/\(index)", isLenient: isLenient, levels: 3))
        }
        return messages
    }
}

extension Job.Bookmark {
    fileprivate func message() throws(BrokerError) -> JobMessage.Bookmark {
        let (names, values) = (JobMessage.Bookmark.nameCounts, JobMessage.Bookmark.valueCounts)
        guard names.contains(name.utf8.count), values.contains(value?.utf8.count ?? 0) else {
            throw .refused(
                .unsupportedMessage,
                "The name of a bookmark has \(names.lowerBound) to \(names.upperBound) bytes, and its value at most "
                    + "\(values.upperBound); these have \(name.utf8.count) and \(value?.utf8.count ?? 0).")
        }
        return JobMessage.Bookmark(name: name, value: value)
    }
}

extension Job.DeletionLimit {
    fileprivate func message() throws(BrokerError) -> JobMessage.DeletionLimit {
        switch self {
        case .objects(let count) where count >= 0: return .objects(count)
        case .percent(let percent) where (0...100).contains(percent):
            return .percent(thousandths: Int((percent * 1_000).rounded()))
        case .objects, .percent:
            throw .refused(
                .unsupportedMessage,
                "A limit of deletions is a number from 0, or a percentage from 0 to 100, not \(self).")
        }
    }
}
