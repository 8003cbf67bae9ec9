internal import BrokerJSON
internal import BrokerFastJSON

/// An entry of a shared log about the servers that share it.
package enum ReplicaNote: Sendable, Equatable {
    /// A server takes part from now on: trimming waits for it.
    case joined(String)
    /// A server does not take part any more.
    case left(String)
    case checkpoint(ReplicaCheckpoint)
    /// The entries after it are applied under that fingerprint.
    case upgrade(fingerprint: String)

    package enum Kind: Sendable {
        case replica, checkpoint, upgrade
    }

    package var kind: Kind {
        switch self {
        case .joined, .left: .replica
        case .checkpoint: .checkpoint
        case .upgrade: .upgrade
        }
    }

    package var payload: [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            switch self {
            case .joined(let name): writer.member("joined", name)
            case .left(let name): writer.member("left", name)
            case .upgrade(let fingerprint): writer.member("fingerprint", fingerprint)
            case .checkpoint(let checkpoint): checkpoint.write(to: &writer)
            }
        }
        return writer.bytes
    }

    /// - Returns: nil for a payload that a later version wrote.
    package init?(_ kind: Kind, _ payload: [UInt8]) {
        guard let document = try? JSONDocument(parsing: JSONText(copying: payload)) else { return nil }
        let root = document.root
        switch kind {
        case .replica:
            if let name = root["joined"]?.string {
                self = .joined(name)
            } else if let name = root["left"]?.string {
                self = .left(name)
            } else {
                return nil
            }
        case .upgrade:
            guard let fingerprint = root["fingerprint"]?.string else { return nil }
            self = .upgrade(fingerprint: fingerprint)
        case .checkpoint:
            guard let checkpoint = ReplicaCheckpoint(root) else { return nil }
            self = .checkpoint(checkpoint)
        }
    }
}

/// The state of a server at a position, which the others compare with theirs.
package struct ReplicaCheckpoint: Sendable, Equatable {
    package var replica: String
    /// 0 before the first multiple of the interval.
    package var position: Int64
    /// `StateDigest.digits` there.
    package var digest: String
    /// The server's, under the model in force.
    package var fingerprint: String
    /// The newest position that its disk has.
    package var durable: Int64
    /// The newest position that a backup of it contains; 0 for none.
    package var backup: Int64

    package init(
        replica: String, position: Int64, digest: String, fingerprint: String, durable: Int64, backup: Int64
    ) {
        self.replica = replica
        self.position = position
        self.digest = digest
        self.fingerprint = fingerprint
        self.durable = durable
        self.backup = backup
    }

    fileprivate init?(_ root: JSONValue) {
        guard let replica = root["replica"]?.string, let position = root["position"]?.int64,
            let digest = root["digest"]?.string, let fingerprint = root["fingerprint"]?.string
        else { return nil }
        self.init(
            replica: replica, position: position, digest: digest, fingerprint: fingerprint,
            durable: root["durable"]?.int64 ?? 0, backup: root["backup"]?.int64 ?? 0)
    }

    fileprivate func write(to writer: inout JSONWriter) {
        writer.member("replica", replica)
        writer.member("position", position)
        writer.member("digest", digest)
        writer.member("fingerprint", fingerprint)
        writer.member("durable", durable)
        writer.member("backup", backup)
    }
}
