import BrokerCommandLine
import BrokerJSON
import BrokerModel
import Configuration

/// A configuration file: a JSON object whose keys are the names of options. A line, or the end of a line, that begins
/// with `//` is a comment.
struct ConfigurationFile {
    /// The texts of an option, as on the command line.
    struct Entry {
        let content: ConfigContent
        let line: Int
    }

    let path: String
    private(set) var entries: [String: Entry] = [:]

    /// Larger than any configuration.
    private static let mostBytes = 1 << 20

    /// - Throws: one line with the file, the line and the key of the first fault.
    init(_ path: String, _ options: [ConfigurationOption]) throws(CommandFailure) {
        self.path = path
        let read: JSONText
        do throws(CommandFailure) {
            read = try JSONText.file(path, limit: Self.mostBytes, isRegular: true)
        } catch {
            throw CommandFailure(.usage, error.message)
        }
        guard read.count <= Self.mostBytes else {
            throw CommandFailure(.usage, "\(path) has more than \(Self.mostBytes) bytes, and is no configuration.")
        }
        let text = Self.withoutComments(read)
        let document: JSONDocument
        do {
            document = try JSONDocument(parsing: text.blankingTrailingCommas() ?? text)
        } catch {
            throw CommandFailure(.usage, "\(path):\(error.position.line): this is not JSON: \(error.reason).")
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
                    place + "there is no option \(name.quoted)"
                        + (hint.isEmpty ? ". `brokerd --help` lists them." : hint))
            }
            guard entries[name] == nil else { throw CommandFailure(.usage, place + "\(name.quoted) is given twice.") }
            guard let content = Self.content(value, option.kind) else {
                throw CommandFailure(
                    .usage, place + "\(name.quoted) must be \(option.kind.form), not \(Self.form(of: value)).")
            }
            entries[name] = Entry(content: content, line: line)
        }
        withExtendedLifetime(document) {}
    }

    /// Nil for a value of another type.
    private static func content(_ value: JSONValue, _ kind: ConfigurationOption.Kind) -> ConfigContent? {
        switch kind {
        case .flag: value.bool.map { .string($0 ? "true" : "false") }
        case .value: text(value).map { .string($0) }
        case .values:
            if value.kind == .array {
                texts(value).map { .stringArray($0) }
            } else {
                text(value).map { .stringArray([$0]) }
            }
        }
    }

    private static func texts(_ array: JSONValue) -> [String]? {
        let texts = array.elements.map(text)
        return texts.contains(nil) ? nil : texts.compactMap { $0 }
    }

    /// A number has the same text as on the command line.
    private static func text(_ value: JSONValue) -> String? {
        switch value.kind {
        case .string: value.string
        case .number: String(decoding: value.bytes, as: UTF8.self)
        default: nil
        }
    }

    private static func form(of value: JSONValue) -> String {
        switch value.kind {
        case .null: "null"
        case .object: "an object"
        case .array: "a list"
        case .string: "a text"
        case .number: "a number"
        default: "true or false"
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

extension ConfigurationOption.Kind {
    /// The JSON that a file has for it.
    fileprivate var form: String {
        switch self {
        case .flag: "true or false"
        case .value: "a text or a number"
        case .values: "a text, a number, or a list of them"
        }
    }
}

extension String {
    fileprivate var quoted: String { "\"\(self)\"" }
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
