package import Broker
package import BrokerClient
import BrokerCommandLine
import BrokerFastJSON
import BrokerJSON
import BrokerModel
package import BrokerWire

/// A rejected record that a server keeps, with the job that says it again.
package struct Reject: Sendable {
    package let id: Int64
    package let job: String
    package let sequence: Int64
    package let user: Int64
    package let acceptedAt: Int64
    package let errors: [Completion.Rejection]
    /// The operation with that record alone.
    package let operation: Job.Operation
    let unknownKeys: Job.UnknownKeys?
    let names: Query.Names?
    package let record: RawJSON
    /// The record's path in the request.
    private let place: String

    fileprivate init?(_ json: JSONValue) {
        guard let id = json["id"]?.int64, let request = json["request"],
            let fields = request["operations"]?.elements.first(where: { _ in true })
        else { return nil }
        self.id = id
        operation = Job.Operation(fields)
        job = json["job"]?.string ?? ""
        sequence = json["sequence"]?.int64 ?? 0
        user = json["user"]?.int64 ?? 0
        acceptedAt = json["acceptedAt"]?.int64 ?? 0
        errors = json["errors"]?.elements.map(Completion.Rejection.init) ?? []
        unknownKeys = request["unknown"]?.string.map(Job.UnknownKeys.init)
        names = request["names"]?.string.map(Query.Names.init)
        let key = fields["objects"] == nil ? "json" : "objects"
        let payload = fields[key]
        let isElement = payload?.kind == .array && fields["op"]?.string != "relate"
        let record = isElement ? payload?.elements.first { _ in true } : payload
        self.record = RawJSON(record?.jsonText ?? Array("null".utf8))
        place = "/operations/0/\(key)" + (isElement ? "/0" : "")
    }

    /// The path of an error in the record.
    package func path(of error: Completion.Rejection) -> String {
        let path = error.path ?? ""
        return path.hasPrefix(place) ? String(path.dropFirst(place.count)) : path
    }

    /// Of the job that says it again.
    static func retryID(of id: Int64) -> JobID { JobID("reject-\(id)") }
}

extension RemoteBroker {
    /// The answer to `message`, also while the server makes a list for another page of this process.
    func answer(to message: RejectsMessage) async throws -> RawJSON {
        for _ in 0..<50 {
            do {
                return try await rejects(message)
            } catch let error as BrokerError where error.code == .busy {
                try await Task.sleep(for: .milliseconds(100))
            }
        }
        return try await rejects(message)
    }

    /// The numbers of the rejected records that `filter` selects, the oldest first.
    package func rejectNumbers(_ filter: RejectsMessage) async throws -> [Int64] {
        var (message, found) = (filter, [Int64]())
        message.limit = RejectsMessage.limits.upperBound
        while true {
            let document = try JSONDocument(fast: JSONText(copying: try await answer(to: message).bytes))
            let (page, hasMore) = document.withRoot { root in
                (root["rejects"]?.elements.compactMap { $0["id"]?.int64 } ?? [], root["more"]?.bool ?? false)
            }
            found += page
            guard hasMore, let last = page.last else { return found.reversed() }
            message.before = last
        }
    }

    /// Reads those records, some at a time.
    ///
    /// - Throws: when one is not kept.
    package func forEachReject(_ ids: some Collection<Int64>, _ body: (Reject) async throws -> Void) async throws {
        var rest = Array(ids)[...]
        while let first = rest.first {
            let page = try await rejects(rest.prefix(100))
            guard page.first?.id == first else {
                throw CommandFailure("There is no rejected record \(first). `broker rejects` lists them.")
            }
            for reject in page where reject.id == rest.first {
                try await body(reject)
                rest.removeFirst()
            }
        }
    }

    /// As many of them as are kept and an answer has room for, in their order.
    func rejects(_ ids: some Collection<Int64>) async throws -> [Reject] {
        var message = RejectsMessage()
        (message.ids, message.wantsRequests) = (Array(ids), true)
        message.limit = RejectsMessage.limits.upperBound
        let document = try JSONDocument(fast: JSONText(copying: try await answer(to: message).bytes))
        return document.withRoot { root in root["rejects"]?.elements.compactMap(Reject.init) ?? [] }
    }

    /// Submits a record again, and drops it if it is taken.
    ///
    /// - Returns: why it is not.
    package func retry(_ reject: Reject, timeout: Duration? = nil) async throws -> BrokerError? {
        var job = Job(reject.operation, id: Reject.retryID(of: reject.id))
        (job.unknownKeys, job.names) = (reject.unknownKeys, reject.names)
        do {
            _ = try await process(job, timeout: timeout)
        } catch let error as BrokerError where error.fault != nil {
            return error
        }
        _ = try await drop([reject.id])
        return nil
    }

    /// Drops rejected records.
    ///
    /// - Returns: how many were kept.
    package func drop(_ ids: [Int64]) async throws -> Int {
        var count = 0
        for start in stride(from: 0, to: ids.count, by: RejectsMessage.mostIDs) {
            let part = Array(ids[start...].prefix(RejectsMessage.mostIDs))
            count += try ModelValue(try await answer(to: RejectsMessage(dropping: part)))["dropped"]?.int ?? 0
        }
        return count
    }
}
