import ArgumentParser
import BrokerCommandLine
import Glibc

/// How fetched objects are printed.
enum FetchFormat: String, CaseIterable, ExpressibleByArgument {
    case json, ndjson, csv, table, vertical
}

/// The options that choose it.
struct FetchFormatOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "json, ndjson, csv, table or vertical. Default: table on a terminal, otherwise ndjson.", valueName: "format"
        ))
    var format: FetchFormat?

    @Flag(exclusivity: .exclusive)
    var form: FetchFormat?

    mutating func validate() throws {
        guard let format, let form, format != form else { return }
        throw ValidationError(
            "--\(form.rawValue) and --format \(format.rawValue) contradict each other; give one of them.")
    }

    var chosen: FetchFormat { form ?? format ?? (isatty(STDOUT_FILENO) == 1 ? .table : .ndjson) }
}

extension FetchFormat: EnumerableFlag {
    static func name(for value: FetchFormat) -> NameSpecification {
        value == .vertical ? [.customShort("x"), .customLong("vertical")] : .customLong(value.rawValue)
    }

    static func help(for value: FetchFormat) -> ArgumentHelp? {
        switch value {
        case .json: "Print one JSON array."
        case .ndjson: "Print an object on each line, as JSON."
        case .csv: "Print CSV with a header."
        case .table: "Print a table; on a terminal no wider than that, with … where values are cut."
        case .vertical: "Print an attribute on each line, whole."
        }
    }
}
