import BrokerCommandLine
import BrokerJSON
import BrokerModel

/// A configuration file: a JSON object whose keys are the names of options. A line, or the end of a line, that begins
/// with `//` is a comment.
struct ConfigurationFile {
    struct Entry {
        /// The values of an option, as on the command line.
        let texts: [String]
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
            guard let texts = Self.texts(value, option.kind) else {
                throw CommandFailure(
                    .usage, place + "\(name.quoted) must be \(option.kind.form), not \(Self.form(of: value)).")
            }
            entries[name] = Entry(texts: texts, line: line)
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
