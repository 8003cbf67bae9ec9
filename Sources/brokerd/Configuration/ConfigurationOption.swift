import BrokerJSON

/// An option of brokerd that a configuration may give. They are read from the command's own description, so that a new
/// option has its key, too.
struct ConfigurationOption: Sendable, Equatable {
    enum Kind: Sendable, Equatable {
        /// Without a value: true or false.
        case flag
        case value
        /// May be repeated.
        case values
    }

    /// The name without `--`: the key in a file.
    let name: String
    let kind: Kind
    /// All spellings on the command line.
    let spellings: [String]

    /// The environment variable.
    var variable: String { "BROKERD_" + name.uppercased().replacing("-", with: "_") }

    /// Options of one invocation, which are no configuration.
    static let ofInvocation: Set<String> = ["config", "check", "help", "version"]

    /// Whether an argument gives the option.
    func isGiven(by argument: String) -> Bool {
        let name = argument.prefix { $0 != "=" }
        return spellings.contains { name == $0 }
    }

    /// - Parameter description: of a command, as `--experimental-dump-help` prints it.
    static func all(in description: String) -> [ConfigurationOption] {
        guard let document = try? JSONDocument(parsing: JSONText(copying: Array(description.utf8))) else { return [] }
        return withExtendedLifetime(document) {
            let arguments = document.root["command"]?["arguments"].map { Array($0.elements) } ?? []
            let names = arguments.map { argument in
                argument["names"].map { $0.elements.filter { $0["kind"]?.string == "long" } }?
                    .compactMap { $0["name"]?.string } ?? []
            }
            let known = Set(names.joined())
            return zip(arguments, names).compactMap { argument, names in
                guard let name = names.first, !ofInvocation.contains(name), !isNegation(name, known) else { return nil }
                let kind: Kind =
                    argument["kind"]?.string == "flag"
                    ? .flag : argument["isRepeating"]?.bool == true ? .values : .value
                let negations = kind == .flag && known.contains("no-\(name)") ? ["no-\(name)"] : []
                return ConfigurationOption(name: name, kind: kind, spellings: (names + negations).map { "--\($0)" })
            }
        }
    }

    /// `no-journal` is another spelling of the flag `journal`.
    private static func isNegation(_ name: String, _ known: Set<String>) -> Bool {
        name.hasPrefix("no-") && known.contains(String(name.dropFirst(3)))
    }
}
