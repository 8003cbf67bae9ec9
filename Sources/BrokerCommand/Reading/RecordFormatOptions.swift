import ArgumentParser
import BrokerInput

/// How the records of an input are found and read.
struct RecordFormatOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            """
            The format of the input. Default: by the file's name (.json, .ndjson, .jsonl, .csv, .tsv, .form, .xml, each \
            also followed by .gz or .lz4), else json. Input compressed by gzip or lz4 is always decompressed.
            """))
    var type: RecordFormat?

    @Option(
        help: ArgumentHelp(
            """
            Where the records are in each value of the input: keys with dots between them, or a JSON Pointer \
            (/data/items). In XML, names of elements, beginning with the document's; without it the document is one \
            record.
            """, valueName: "path"))
    var root: RecordRoot?

    @Option(
        help: ArgumentHelp(
            """
            The delimiter of CSV: one character, or tab. Default: the one of , ; | and tab that divides the header into \
            most fields.
            """, valueName: "character"))
    var delimiter: CSVDelimiter?

    @Option(
        help: """
            What happens with a row of CSV that has fewer fields than the header: it is a fault (fail), or the missing \
            fields are null (fill). With fill, a row may also have more fields if these are empty.
            """)
    var ragged: RaggedRows = .fail

    func source(_ path: String, format: RecordFormat, root: RecordRoot?) -> RecordSource {
        RecordSource(path: path, format: format, root: root, csv: CSVOptions(delimiter: delimiter, ragged: ragged))
    }
}

extension RecordFormat: ExpressibleByArgument {}

extension RaggedRows: ExpressibleByArgument {}

extension CSVDelimiter: ExpressibleByArgument {
    public init?(argument: String) { self.init(argument) }
}

extension RecordRoot: ExpressibleByArgument {
    public init?(argument: String) { self.init(argument) }
}
