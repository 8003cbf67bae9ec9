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

    init(_ given: [String], environment: [String: String], options: [ConfigurationOption]) throws {
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

    static func resolve(_ given: [String], _ options: () -> [ConfigurationOption]) throws -> ProgramArguments {
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

    private static func arguments(_ option: ConfigurationOption, _ texts: [String]) throws -> [String] {
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

        /// The JSON that a file has for it.
        var form: String {
            switch self {
            case .flag: "true or false"
            case .value: "a text or a number"
            case .values: "a text, a number, or a list of them"
            }
        }
    }

    /// The name without `--`: the key in a file.
    let name: String
    let kind: Kind
    /// All spellings on the command line.
    let spellings: [String]

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
        let document = try? JSONDocument(parsing: JSONText(copying: Array(description.utf8)))
        return document?.withRoot { root in
            let arguments = root["command"]?["arguments"].map { Array($0.elements) } ?? []
            let names = arguments.map { argument in
                argument["names"].map { $0.elements.filter { $0["kind"]?.string == "long" } }?
                    .compactMap { $0["name"]?.string } ?? []
            }
            let known = Set(names.joined())
            return zip(arguments, names).compactMap { argument, names in
                // `no-journal` is another spelling of the flag `journal`.
                guard let name = names.first, !ofInvocation.contains(name),
                    !name.hasPrefix("no-") || !known.contains(String(name.dropFirst(3)))
                else { return nil }
                let kind: Kind =
                    argument["kind"]?.string == "flag"
                    ? .flag : argument["isRepeating"]?.bool == true ? .values : .value
                let negations = kind == .flag && known.contains("no-\(name)") ? ["no-\(name)"] : []
                return ConfigurationOption(name: name, kind: kind, spellings: (names + negations).map { "--\($0)" })
            }
        } ?? []
    }
}

/// A configuration file: a JSON object whose keys are the names of options. A line, or the end of a line, that begins
/// with `//` is a comment.
struct ConfigurationFile {
    let path: String
    /// By option, its values as on the command line.
    private(set) var entries: [String: (texts: [String], line: Int)] = [:]

    /// Larger than any configuration.
    private static let mostBytes = 1 << 20

    /// - Throws: one line with the file, the line and the key of the first fault.
    init(_ path: String, _ options: [ConfigurationOption]) throws {
        self.path = path
        let text: JSONText
        let document: JSONDocument
        do {
            let read = try JSONText.file(path, limit: Self.mostBytes, isRegular: true)
            guard read.count <= Self.mostBytes else {
                throw CommandFailure(.usage, "\(path) has more than \(Self.mostBytes) bytes, and is no configuration.")
            }
            text = Self.withoutComments(read)
            document = try JSONDocument(parsing: text.blankingTrailingCommas() ?? text)
        } catch let error as JSONError {
            throw CommandFailure(.usage, "\(path):\(error.position.line): this is not JSON: \(error.reason).")
        } catch {
            throw CommandFailure(.usage, "\(error)")
        }
        let root = document.root
        guard root.kind == .object else {
            throw CommandFailure(.usage, "\(path) is no object. Write { \"store\": \"…\", … }.")
        }
        let known = Dictionary(uniqueKeysWithValues: options.map { ($0.name, $0) })
        for (key, value) in root.members {
            let name = key.string ?? ""
            let line = JSONPosition(offset: key.offset, in: text).line
            let place = "\(path):\(line): "
            guard let option = known[name] else {
                let hint = NearMiss.question(name, among: options.lazy.map(\.name))
                throw CommandFailure(
                    .usage,
                    place + "there is no option \"\(name)\""
                        + (hint.isEmpty ? ". `brokerd --help` lists them." : hint))
            }
            guard entries[name] == nil else { throw CommandFailure(.usage, place + "\"\(name)\" is given twice.") }
            guard let texts = Self.texts(value, option.kind) else {
                throw CommandFailure(
                    .usage, place + "\"\(name)\" must be \(option.kind.form), not \(value.kind.phrase).")
            }
            entries[name] = (texts, line)
        }
        withExtendedLifetime(document) {}
    }

    /// Nil for a value of another type.
    private static func texts(_ value: JSONValue, _ kind: ConfigurationOption.Kind) -> [String]? {
        if kind == .flag { return value.bool.map { ["\($0)"] } }
        let texts = kind == .values && value.kind == .array ? value.elements.map(text) : [text(value)]
        return texts.contains(nil) ? nil : texts.compactMap(\.self)
    }

    /// A number has the same text as on the command line.
    private static func text(_ value: JSONValue) -> String? {
        switch value.kind {
        case .string: value.string
        case .number: String(decoding: value.bytes, as: UTF8.self)
        default: nil
        }
    }

    /// The same text with spaces in place of comments, so that all positions stay the same.
    static func withoutComments(_ text: JSONText) -> JSONText {
        var bytes = Array(text.bytes)
        var (isInString, isEscaped, isInComment) = (false, false, false)
        for offset in bytes.indices {
            let byte = bytes[offset]
            if byte == UInt8(ascii: "\n") {
                (isInString, isEscaped, isInComment) = (false, false, false)
            } else if isInComment {
                bytes[offset] = UInt8(ascii: " ")
            } else if isEscaped {
                isEscaped = false
            } else if isInString {
                isEscaped = byte == UInt8(ascii: "\\")
                isInString = byte != UInt8(ascii: "\"")
            } else if byte == UInt8(ascii: "/"), offset + 1 < bytes.count, bytes[offset + 1] == byte {
                isInComment = true
                bytes[offset] = UInt8(ascii: " ")
            } else {
                isInString = byte == UInt8(ascii: "\"")
            }
        }
        return JSONText(copying: bytes)
    }
}
