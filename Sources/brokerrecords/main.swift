import BrokerJSON
import BrokerModel
import Foundation

// Writes the structs of `broker model swift` to a file, for the plugin: it needs none of the packages of the command.

func fail(_ message: String) -> Never {
    FileHandle.standardError.write(Data("generate-broker-records: \(message)\n".utf8))
    exit(1)
}

var (files, options, isPublic) = ([String](), [String: [String]](), false)
var arguments = CommandLine.arguments.dropFirst()
while let argument = arguments.popFirst() {
    switch argument {
    case "--output", "--entity", "--include": options[argument, default: []].append(arguments.popFirst() ?? "")
    case "--public": isPublic = true
    default: files.append(argument)
    }
}
guard files.count == 1, !files[0].hasPrefix("-"), let output = options["--output"]?.last else {
    fail("Usage: model.json --output File.swift [--entity Name]… [--include Order.lines]… [--public]")
}
do {
    let document = try ModelDocument(parsing: JSONText(copying: Array(Data(contentsOf: URL(filePath: files[0])))))
    let source = try SwiftSource(
        ModelReader.read(document), entities: options["--entity"] ?? [], includes: options["--include"] ?? [],
        isPublic: isPublic)
    try Data("\(source.text)\n".utf8).write(to: URL(filePath: output))
} catch let fault as SwiftSource.Fault {
    fail(fault.message)
} catch let error as CocoaError {
    fail("\(error.filePath ?? output): \(error.localizedDescription)")
} catch {
    fail("\(error)")
}
