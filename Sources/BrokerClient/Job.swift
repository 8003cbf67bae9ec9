public import BrokerWire
internal import Foundation

/// A job to be submitted: operations that take effect together or not at all.
public struct Job: Sendable {
    /// In the order in which they take effect.
    public var operations: [JobMessageWriter.Operation]
    /// 1 to 128 bytes; a job is applied exactly once under one id. Nil: the client makes one.
    public var id: String?
    public var onInvalid = JobMessage.OnInvalid.fail
    public var reply = JobMessage.Reply.summary
    /// Trailing commas are to be forgiven.
    public var isLenient = false

    public init(operations: [JobMessageWriter.Operation], id: String? = nil) {
        self.operations = operations
        self.id = id
    }

    /// Find or create objects of `entity` from JSON text: a record, or an array of records.
    public static func process(_ json: [UInt8], as entity: String) -> Job {
        Job(operations: [.init(entity: entity, json: json)])
    }

    /// Find or create objects of `entity` from values that can be encoded: a record, or an array of records.
    ///
    /// Dates are written as seconds since 1970, which keep their fractions, and data as base64.
    public static func process(_ records: some Encodable, as entity: String) throws(BrokerError) -> Job {
        let encoder = JSONEncoder()
        encoder.dateEncodingStrategy = .secondsSince1970
        encoder.outputFormatting = .withoutEscapingSlashes
        do {
            return process([UInt8](try encoder.encode(records)), as: entity)
        } catch {
            throw .notEncodable(reason: "\(error)")
        }
    }
}
