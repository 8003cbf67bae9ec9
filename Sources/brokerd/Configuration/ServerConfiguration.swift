import ArgumentParser
import BrokerCommandLine
import BrokerJSON
import BrokerModel
import Foundation

/// The options of a start: those of the configuration file, replaced by those of the environment, replaced by those of
/// the command line. An option that may be repeated is replaced as a whole.
struct ServerConfiguration {
    /// The arguments to parse: those of the file and the environment, then those of the command line.
    let arguments: [String]
    /// The place of each option that the command line does not give, by its spelling (`--store`).
    private var origins: [String: String] = [:]

    /// - Parameters:
    ///   - given: the command line without the program's name.
    ///   - environment: all variables.
    /// - Throws: one line, with the status of wrong arguments.
    init(
        _ given: [String], environment: [String: String], options: [ConfigurationOption]
    ) throws(CommandFailure) {
        let words = Array(given.prefix { $0 != "--" })
        var file: ConfigurationFile?
        if let path = Self.path(in: words) { file = try ConfigurationFile(path, options) }
        var arguments: [String] = []
        for option in options where !words.contains(where: option.isGiven) {
            let spelling = "--\(option.name)"
            if let text = environment[option.variable] {
                origins[spelling] = option.variable
                arguments += try Self.arguments(option, option.kind == .values ? Self.values(text) : [text])
            } else if let file, let entry = file.entries[option.name] {
                origins[spelling] = "\(file.path):\(entry.line), \"\(option.name)\""
                arguments += try Self.arguments(option, entry.texts)
            }
        }
        self.arguments = arguments + given
    }

    /// The arguments of this process.
    ///
    /// - Parameter options: of the command.
    static func resolve(
        _ given: [String], _ options: () -> [ConfigurationOption]
    ) throws(CommandFailure) -> ProgramArguments {
        let environment = ProcessInfo.processInfo.environment
        guard path(in: given) != nil || environment.keys.contains(where: { $0.hasPrefix(prefix) }) else {
            return ProgramArguments(given)
        }
        let configuration = try ServerConfiguration(given, environment: environment, options: options())
        return ProgramArguments(configuration.arguments, explain: configuration.explain)
    }

    private static let prefix = "BROKERD_"

    /// Variables that look like options of this process, and are none, with the one that was probably meant. They are no
    /// fault: other programs set variables, too.
    static func unknownVariables(_ options: [ConfigurationOption]) -> [(name: String, hint: String)] {
        let known = options.map(\.variable)
        return ProcessInfo.processInfo.environment.keys.filter { $0.hasPrefix(prefix) && !known.contains($0) }.sorted()
            .map { ($0, NearMiss.question($0, among: known)) }
    }

    /// The last `--config`, as the parser takes it.
    private static func path(in words: [String]) -> String? {
        var path: String?
        for (index, word) in words.enumerated() {
            if word.hasPrefix("--config=") { path = String(word.dropFirst("--config=".count)) }
            if word == "--config", index + 1 < words.count { path = words[index + 1] }
        }
        return path
    }

    /// A variable has the values of an option that may be repeated with commas between them.
    private static func values(_ text: String) -> [String] {
        text.split(separator: ",", omittingEmptySubsequences: false).map {
            $0.trimmingCharacters(in: .whitespacesAndNewlines)
        }
    }

    private static func arguments(
        _ option: ConfigurationOption, _ texts: [String]
    ) throws(CommandFailure) -> [String] {
        guard option.kind == .flag else { return texts.map { "--\(option.name)=\($0)" } }
        // A file has a boolean, and a variable a text.
        let text = texts[0]
        switch text.lowercased() {
        case "true", "yes", "1": return ["--\(option.name)"]
        case "false", "no", "0": return []
        default:
            throw CommandFailure(
                .usage, "\(option.variable) must be true or false, but is \"\(text)\": --\(option.name) has no value.")
        }
    }

    /// Adds the place of the option that a fault of the arguments names.
    func explain(_ fault: String) -> String {
        let named = fault.matches(of: /--[a-z][a-z-]*/).lazy.compactMap { origins[String($0.0)] }.first
        return named.map { "\($0): \(fault)" } ?? fault
    }
}

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
