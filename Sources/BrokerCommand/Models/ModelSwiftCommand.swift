import ArgumentParser
import BrokerCommandLine
import BrokerJSON
import BrokerModel

struct ModelSwiftCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "swift", abstract: "Writes Swift structs for the entities of a model.",
        discussion: """
            The structs are Codable, in the form of the model's records, for BrokerClient and BrokerEmbedded: \
            broker model swift model.json > Sources/App/Model.swift
            """)

    @OptionGroup var arguments: ModelArguments

    @Flag(name: .customLong("public"), help: "Declare them public.")
    var isPublic = false

    func run() async throws {
        let text = SwiftSource(try arguments.readOrComplain(), isPublic: isPublic).text
        guard arguments.json else { return try Program.write(text) }
        var writer = JSONWriter()
        writer.object { $0.member("swift", text) }
        try Program.write(String(decoding: writer.bytes, as: UTF8.self))
    }
}
