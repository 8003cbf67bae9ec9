package import BrokerCoordinator
package import BrokerJSON
internal import BrokerModel
internal import BrokerStaging
package import BrokerStore
package import BrokerWire

extension Job {
    /// - Parameters:
    ///   - envelope: the envelope of `message`.
    ///   - owner: the user who sent it.
    ///   - content: the whole message, as it was sent.
    ///   - observer: called for every event of the job.
    package convenience init(
        _ message: JobMessage, of envelope: ClientEnvelope, from owner: JobOwner = .server, content: JSONText,
        observer: @escaping @Sendable (JobEvent) -> Void
    ) {
        self.init(
            id: message.id, owner: owner, document: envelope.document,
            operations: ShortList(message.operations) { JobOperation($0) },
            policy: message.onInvalid == .skip ? .skip : .fail, wantsKeys: message.reply == .keys,
            wantsObjects: message.reply == .objects && message.notify.contains(.completed),
            wantsAcceptance: message.notify.contains(.accepted), content: content, observer: observer)
        objectDates = message.dates == .model ? .model : .iso8601
        wantsProgress = message.notify.contains(.progress)
        isDryRun = message.isDryRun
        maximumDeletions = message.maximumDeletions.map(DeletionLimit.init)
        bookmark = message.bookmark.map { Bookmark(name: $0.name, value: $0.value) }
        refusesUnknownKeys = message.unknownKeys == .fail
    }
}

extension DeletionLimit {
    fileprivate init(_ limit: JobMessage.DeletionLimit) {
        switch limit {
        case .objects(let count): self = .objects(count)
        case .percent(let thousandths): self = .share(thousandthsOfPercent: thousandths)
        }
    }
}
