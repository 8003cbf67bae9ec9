import ArgumentParser
import Broker
import BrokerInput
import BrokerPages

/// How the pages of a load are read, and what their records are.
struct LoadRecordOptions: ParsableArguments {
    @Option(help: "The entity of the records.", completion: .entity)
    var entity: String?

    @Option(
        help: ArgumentHelp("The path whose routes read the pages. Default: the path of each URL.", valueName: "path"))
    var path: String?

    @Option(help: ArgumentHelp("The model's mapping that reads the pages.", valueName: "name"))
    var mapping: String?

    @Flag(help: "At the end, delete the objects of the entity that no page named. Needs --entity.")
    var sync = false

    @OptionGroup var selection: SelectionOptions

    @Option(
        name: .customLong("max-delete"),
        help: ArgumentHelp(
            "With --sync: the maximum number of objects to delete, or a share of each entity's, as in 10%.",
            valueName: "count"))
    var maxDelete: Job.DeletionLimit?

    @Flag(help: "Pages without any record are no error.")
    var empty = false

    @Option(help: "What happens with an invalid record: fail its job, or skip the record.")
    var onInvalid: Job.OnInvalid = .fail

    @Option(
        help:
            "What happens with a key that the model does not name: it is counted (warn), or its record is invalid (fail)."
    )
    var unknown: Job.UnknownKeys = .warn

    @OptionGroup var inference: InferenceOptions

    @OptionGroup var format: RecordFormatOptions

    mutating func validate() throws {
        let readings = [("--entity", entity), ("--path", path), ("--mapping", mapping)].filter { $1 != nil }.map(\.0)
        if readings.count > 1 {
            throw ValidationError("\(readings.joined(separator: " and ")) contradict each other; give one of them.")
        }
        if sync, entity == nil { throw ValidationError("--sync deletes objects of an entity; give --entity.") }
        if !sync, selection.format != nil || maxDelete != nil {
            throw ValidationError("--where and --max-delete limit what --sync deletes; give --sync, too.")
        }
    }

    /// - Parameters:
    ///   - root: where the records were found, when --root does not say it.
    ///   - maximumBytes: more, unpacked, are a fault.
    func source(of page: Page, _ body: UnnamedFile, root: RecordRoot?, maximumBytes: Int) -> RecordSource {
        let format =
            format.type ?? RecordFormat(mediaType: page.mediaType)
            ?? RecordFormat(fileName: page.url.lastPathComponent) ?? .json
        var source = self.format.source(body.path, format: format, root: self.format.root ?? root)
        source.title = page.url.absoluteString
        source.maximumBytes = maximumBytes
        return source
    }
}

extension RecordFormat {
    /// Nil for a type that does not say what the body is.
    init?(mediaType: String) {
        switch mediaType {
        case "application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines",
            "application/json-seq":
            self = .ndjson
        case "text/csv": self = .csv
        case "text/tab-separated-values": self = .tsv
        case "application/x-www-form-urlencoded": self = .form
        case "application/json", "text/json": self = .json
        case "application/xml", "text/xml": self = .xml
        case _ where mediaType.hasSuffix("+json"): self = .json
        case _ where mediaType.hasSuffix("+xml"): self = .xml
        default: return nil
        }
    }
}
