import BrokerJSON

/// A submission as a command that a shell runs, to submit the rest of its records.
struct SubmitCommandLine: Sendable {
    /// Files as they were given; none for standard input alone.
    let files: [String]
    let skip: Int
    let take: Int?
    let id: String?
    let mayBeEmpty: Bool
    let isDryRun: Bool
    let isCheck: Bool
    /// The same command does not apply again what is committed.
    let resumes: Bool
    /// An entity, a mapping or a path says what the records are.
    let namesRecords: Bool
    /// All other options, those that are not the defaults.
    private let options: [String]

    init(_ command: SubmitCommand) {
        files = command.input.files
        skip = command.skip
        take = command.take
        id = command.id
        mayBeEmpty = command.empty
        isDryRun = command.isDryRun
        isCheck = command.check
        resumes = command.resume
        namesRecords = command.entity != nil || command.mapping != nil || command.path != nil
        let defaults = SubmitCommand.withDefaults()
        var options = command.connection.words
        func add(_ name: String, _ value: String?) {
            guard let value else { return }
            options += [String].option(name, value)
        }
        func add<Value: Equatable>(_ name: String, _ value: Value, unless other: Value) {
            if value != other { add(name, "\(value)") }
        }
        add("--entity", command.entity)
        add("--path", command.path)
        add("--mapping", command.mapping)
        add("--batch-records", command.batchRecords, unless: defaults.batchRecords)
        add("--batch-bytes", command.batchBytes, unless: defaults.batchBytes)
        add("--max-in-flight", command.maxInFlight, unless: defaults.maxInFlight)
        add("--on-invalid", command.onInvalid.rawValue, unless: defaults.onInvalid.rawValue)
        add("--unknown", command.unknown.rawValue, unless: defaults.unknown.rawValue)
        add("--type", command.input.type?.rawValue)
        add("--root", command.input.root?.text)
        add("--delimiter", command.input.delimiter?.text)
        add("--ragged", command.input.ragged.rawValue, unless: defaults.input.ragged.rawValue)
        for identity in command.inference.identity { add("--identity", identity) }
        for key in command.inference.ignore { add("--ignore", key) }
        if let evolves = command.evolve { options.append(evolves ? "--evolve" : "--no-evolve") }
        if command.dryRun { options.append("--dry-run") }
        if command.check { options.append("--check") }
        if command.resume { options.append("--resume") }
        // The file of this run is not empty; only a resumed one adds to it.
        if command.resume { add("--rejects", command.rejects) }
        if command.json { options.append("--json") }
        if command.empty { options.append("--empty") }
        self.options = options
    }

    /// The same command.
    var arguments: [String] { arguments(of: files, skip: skip, take: take, id: id) }

    /// The command for a part of the input.
    ///
    /// - Parameters:
    ///   - files: none for standard input alone.
    ///   - skip: the number of records of these files to skip.
    ///   - take: records to submit at most; nil for all others.
    func arguments(of files: [String], skip: Int, take: Int?, id: String?) -> [String] {
        var arguments = [CommandLine.arguments.first ?? "broker", "submit"] + options
        if let id { arguments += [String].option("--id", id) }
        if skip > 0 { arguments += ["--skip", "\(skip)"] }
        if let take { arguments += ["--take", "\(take)"] }
        if files.contains(where: { $0.hasPrefix("-") && $0 != "-" }) { arguments.append("--") }
        return arguments + files
    }
}

extension SubmitCommand {
    /// The default values of the options.
    fileprivate static func withDefaults() -> SubmitCommand {
        do {
            return try SubmitCommand.parse([])
        } catch {
            preconditionFailure("no option is required: \(error)")
        }
    }
}

extension [String] {
    /// As words for a shell, each of them exactly what it is here.
    var shellText: String { map(\.shellWord).joined(separator: " ") }
}

extension String {
    private static let plainCharacters = Set(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-".unicodeScalars)

    /// The text as one word for a shell: as it is, in single quotes, or, where it has characters that a terminal
    /// interprets, in the quotes `$'…'` of bash, ksh, zsh and POSIX 2024, which escape them.
    fileprivate var shellWord: String {
        if !isEmpty, unicodeScalars.allSatisfy(Self.plainCharacters.contains) { return self }
        guard printable != self else { return "'\(replacingQuotes)'" }
        var word = "$'"
        for scalar in unicodeScalars {
            let text = String(scalar)
            if text.printable != text {
                for byte in text.utf8 { word += "\\x" + (byte < 16 ? "0" : "") + String(byte, radix: 16) }
            } else {
                word += scalar == "'" || scalar == "\\" ? "\\\(scalar)" : text
            }
        }
        return word + "'"
    }

    /// A single quote ends the quoted part, is escaped by itself, and begins the next part.
    private var replacingQuotes: String {
        split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''")
    }
}
