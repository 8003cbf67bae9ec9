internal import BrokerJSON
internal import BrokerStore

extension [WALReader] {
    /// Writes the member `readers`; nothing when no reader is known.
    func write(to writer: inout JSONWriter) {
        let known = filter { $0.pid != nil || $0.process != nil }
        guard !known.isEmpty else { return }
        writer.key("readers")
        writer.array { writer in
            for reader in known {
                writer.object { writer in
                    writer.member("process", reader.process)
                    if let pid = reader.pid { writer.member("pid", pid) }
                }
            }
        }
    }
}
