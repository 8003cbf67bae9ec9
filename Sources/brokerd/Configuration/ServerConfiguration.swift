import ArgumentParser
import BrokerCommandLine
import BrokerModel
import Configuration
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
        let entries = file?.entries ?? [:]
        let reader = ConfigReader(providers: [
            EnvironmentVariablesProvider(environmentVariables: environment),
            InMemoryProvider(
                values: Dictionary(
                    uniqueKeysWithValues: entries.map {
                        (AbsoluteConfigKey(["brokerd", $0.key]), ConfigValue($0.value.content, isSecret: false))
                    })),
        ]).scoped(to: "brokerd")
        var arguments: [String] = []
        for option in options where !words.contains(where: option.isGiven) {
            let isInEnvironment = environment[option.variable] != nil
            guard isInEnvironment || entries[option.name] != nil else { continue }
            let spelling = "--\(option.name)"
            origins[spelling] =
                isInEnvironment
                ? option.variable : "\(file?.path ?? ""):\(entries[option.name]?.line ?? 0), \"\(option.name)\""
            arguments += try Self.arguments(option, reader)
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

    private static func arguments(
        _ option: ConfigurationOption, _ reader: ConfigReader
    ) throws(CommandFailure) -> [String] {
        let key = ConfigKey([option.name])
        switch option.kind {
        case .value: return reader.string(forKey: key).map { ["--\(option.name)=\($0)"] } ?? []
        case .values: return (reader.stringArray(forKey: key) ?? []).map { "--\(option.name)=\($0)" }
        case .flag:
            // A file has a boolean, and a variable a text.
            let text = reader.string(forKey: key) ?? ""
            switch text.lowercased() {
            case "true", "yes", "1": return ["--\(option.name)"]
            case "false", "no", "0": return []
            default:
                throw CommandFailure(
                    .usage,
                    "\(option.variable) must be true or false, but is \"\(text)\": --\(option.name) has no value.")
            }
        }
    }

    /// Adds the place of the option that a fault of the arguments names.
    func explain(_ fault: String) -> String {
        let named = fault.matches(of: /--[a-z][a-z-]*/).lazy.compactMap { origins[String($0.0)] }.first
        return named.map { "\($0): \(fault)" } ?? fault
    }
}
