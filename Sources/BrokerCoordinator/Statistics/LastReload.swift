internal import BrokerJSON

/// How the last change of the model by a reload or a migration ended.
struct LastReload {
    /// In milliseconds since 1970.
    let time: Int64
    /// Why the model before it stays in effect; nil for a change that was made.
    let refusal: String?

    func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("at", time)
            writer.key("successful")
            writer.bool(refusal == nil)
            if let refusal { writer.member("reason", refusal) }
        }
    }
}
