import ArgumentParser
import BrokerFormats

/// Where the commands that read records read them.
struct InputOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            """
            Where the records are in each value of the input: keys with dots between them, or a JSON Pointer \
            (/data/items).
            """, valueName: "path"))
    var root: RecordRoot?

    @Argument(help: "Files of JSON; none or - is standard input.", completion: .file())
    var files: [String] = []

    /// In the order in which they are given.
    var sources: [RecordSource] {
        (files.isEmpty ? ["-"] : files).map { RecordSource(path: $0, format: .json, root: root) }
    }
}

extension RecordRoot: ExpressibleByArgument {
    public init?(argument: String) { self.init(argument) }
}
