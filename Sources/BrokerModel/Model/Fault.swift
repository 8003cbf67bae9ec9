package import BrokerJSON

/// The reason why a job or one of its records was refused, in the contract's terms.
///
/// The codes of frames and connections are defined in the wire; these are the codes of the coordinator and below.
package enum FaultCode: String, Sendable, CaseIterable {
    case idConflict, busy, draining, cancelled, malformedJSON, unsupportedMessage
    case unknownEntity, unknownRelationship, unknownMapping, unmappable
    case invalidValue, missingValue, missingIdentity, noKnownKey, unknownKey, objectNotFound, validationFailed
    case constraintViolation, tooManyDeletions, unauthorized
    case invalidPredicate, remoteError, snapshotExpired, gone, notYet, storeFull, storeUnavailable, `internal`
}

/// A fault: what happened, where, and the remedy.
package struct Fault: Error, Sendable, Equatable, CustomStringConvertible {
    package var code: FaultCode
    /// What happened and the remedy, in one or two sentences.
    package var message: String
    /// JSON Pointer (RFC 6901) into the message.
    package var path: String?
    package var entity: String?
    package var attribute: String?
    /// For `busy` and `notYet`: the time until a retry is worthwhile.
    package var retryAfterMilliseconds: Int?
    /// For `gone`: the feed can be read after this sequence, and no older one.
    package var oldest: Int64?
    /// The text of SQLite about it, for the log of the server: outcomes do not have it, because it differs between versions.
    package var cause: String?

    package init(
        _ code: FaultCode, _ message: String, path: String? = nil, entity: String? = nil, attribute: String? = nil,
        retryAfterMilliseconds: Int? = nil
    ) {
        self.code = code
        self.message = message
        self.path = path
        self.entity = entity
        self.attribute = attribute
        self.retryAfterMilliseconds = retryAfterMilliseconds
    }

    /// `busy`, with the time until a retry is worthwhile.
    package static func busy(_ message: String, path: String? = nil) -> Fault {
        Fault(.busy, message, path: path, retryAfterMilliseconds: retryMilliseconds)
    }

    /// The server has not applied everything up to a sequence.
    package static func notYet(_ sequence: Int64, applied: Int64) -> Fault {
        Fault(
            .notYet,
            "This server has applied the log up to \(applied), and not up to \(sequence) yet. Ask again, or ask the server that gave "
                + "the sequence.", retryAfterMilliseconds: retryMilliseconds)
    }

    /// The remedy that `busy` gives.
    private static let retryMilliseconds = 1_000

    package func at(_ path: String?) -> Fault {
        var fault = self
        fault.path = path
        return fault
    }

    package func of(entity: String) -> Fault {
        var fault = self
        fault.entity = entity
        return fault
    }

    package var description: String {
        path.map { "\(code.rawValue) at \($0): \(message)" } ?? "\(code.rawValue): \(message)"
    }

    /// Writes the fault as the contract's object.
    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("code", code.rawValue)
            writer.member("message", message)
            writer.member("path", path)
            writer.member("entity", entity)
            writer.member("attribute", attribute)
            if let retryAfterMilliseconds {
                writer.key("retryAfterMilliseconds")
                writer.integer(retryAfterMilliseconds)
            }
            if let oldest {
                writer.key("oldest")
                writer.integer(oldest)
            }
        }
    }
}
