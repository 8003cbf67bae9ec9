import ArgumentParser
import BrokerInput

/// Where the commands that read records read them.
struct InputOptions: ParsableArguments {
    @OptionGroup var format: RecordFormatOptions

    @Argument(help: "Files of records; none or - is standard input.", completion: .file())
    var files: [String] = []

    var readsStandardInput: Bool { files.isEmpty || files.contains("-") }

    var type: RecordFormat? { format.type }

    var root: RecordRoot? { format.root }

    var delimiter: CSVDelimiter? { format.delimiter }

    var ragged: RaggedRows { format.ragged }

    /// In the order in which they are given.
    var sources: [RecordSource] { sources(root: root) }

    func sources(root: RecordRoot?) -> [RecordSource] {
        (files.isEmpty ? ["-"] : files).map {
            format.source($0, format: type ?? RecordFormat(fileName: $0) ?? .json, root: root)
        }
    }
}
