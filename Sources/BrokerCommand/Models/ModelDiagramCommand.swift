import ArgumentParser
import BrokerCommandLine
import BrokerJSON
import BrokerModel

struct ModelDiagramCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "diagram", abstract: "Draws a model as Mermaid or Graphviz text.",
        discussion: """
            Mermaid goes into Markdown as it is; for Graphviz: broker model diagram --format graphviz model.json | dot -Tsvg
            """)

    enum Format: String, CaseIterable, ExpressibleByArgument {
        case mermaid, graphviz
    }

    @OptionGroup var arguments: ModelArguments

    @Option(help: "mermaid or graphviz.")
    var format: Format = .mermaid

    func run() async throws {
        let diagram = ModelDiagram(try arguments.files.model.readOrComplain().document)
        let text = format == .mermaid ? diagram.mermaid : diagram.graphviz
        guard arguments.json else { return try Program.write(text) }
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("format", format.rawValue)
            writer.member("diagram", text)
        }
        try Program.write(String(decoding: writer.bytes, as: UTF8.self))
    }
}
