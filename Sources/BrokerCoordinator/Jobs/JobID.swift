internal import BrokerModel

/// A job's id as a key: compared byte by byte, as the ledger does.
///
/// Two ids that differ only in Unicode form are two ids, while `String` compares them as equal.
struct JobID: Hashable, Sendable {
    let text: String

    init(_ text: String) {
        var text = text
        text.makeContiguousUTF8()
        self.text = text
    }

    static func == (left: JobID, right: JobID) -> Bool { left.text.hasSameBytes(as: right.text) }

    func hash(into hasher: inout Hasher) {
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}
