import BrokerCommandLine

extension ConnectionOptions {
    /// The given options as words of a command line, for the command that goes on.
    var words: [String] {
        var words: [String] = []
        func add(_ name: String, _ value: String?) {
            guard let value else { return }
            words += [String].option(name, value)
        }
        add("--socket", socket)
        add("--store", store)
        for model in model { add("--model", model) }
        add("--migrate", removal?.rawValue)
        if reconnectTimeout != Self.defaultReconnectTimeout { add("--reconnect-timeout", "\(reconnectTimeout)") }
        add("--timeout", timeout?.description)
        return words
    }
}

extension [String] {
    /// An option with its value; one that begins with a dash would be read as an option.
    static func option(_ name: String, _ value: String) -> [String] {
        value.hasPrefix("-") ? ["\(name)=\(value)"] : [name, value]
    }
}
