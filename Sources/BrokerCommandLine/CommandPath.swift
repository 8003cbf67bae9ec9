import ArgumentParser
internal import BrokerModel

/// The command that the first arguments of a program name.
struct CommandPath {
    /// As typed after a shell's prompt: `broker model check`.
    private(set) var name: String
    private let root: any ParsableCommand.Type
    private var command: any ParsableCommand.Type
    /// The argument at which a command was expected, when it names none.
    private var unknown: String?
    private var siblings: [String] = []

    init(_ root: any ParsableCommand.Type, _ arguments: [String]) {
        name = root._commandName
        self.root = root
        command = root
        for argument in arguments {
            let commands = command.configuration.subcommands
            // An option ends the path: whether the next argument is its value is not known here.
            guard !commands.isEmpty, !argument.hasPrefix("-") else { return }
            if argument == "help" { continue }
            let named = commands.first {
                $0._commandName == argument || $0.configuration.aliases.contains(argument)
            }
            guard let named else {
                siblings = commands.map { $0._commandName }
                // Another word may be an argument of the default one.
                let isCertain = command.configuration.defaultSubcommand == nil
                if isCertain || NearMiss.nearest(to: argument, among: siblings) != nil { unknown = argument }
                return
            }
            command = named
            name += " \(named._commandName)"
        }
    }

    /// The fault of the argument at which a command was expected; nil when it names one, or is none.
    var fault: String? {
        unknown.map { "There is no command \"\($0)\"\(NearMiss.ending($0, among: siblings))" }
    }

    /// The fault of an option that the command lacks: swift-argument-parser reports a missing argument instead of it.
    func unknownOption(in arguments: [String]) -> String? {
        let help = root.helpMessage(for: command, includeHidden: true, columns: 1_000)
        let known = help.matches(of: /--[a-z][a-z0-9-]*/).map { String($0.output) }
        let given = arguments.prefix { $0 != "--" }.filter { $0.hasPrefix("--") }.map { $0.prefix { $0 != "=" } }
        guard let unknown = given.map(String.init).first(where: { !known.contains($0) }) else { return nil }
        let nearest = NearMiss.nearest(to: unknown, among: known)
        return "Unknown option '\(unknown)'." + (nearest.map { " Did you mean '\($0)'?" } ?? "")
    }
}
