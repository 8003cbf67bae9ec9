import Foundation
import PackagePlugin

/// Writes Swift structs for the entities of a model: `swift package generate-broker-records model.json --output Sources/App/Model.swift`
@main struct GenerateBrokerRecords: CommandPlugin {
    func performCommand(context: PluginContext, arguments: [String]) throws {
        let process = Process()
        process.executableURL = try context.tool(named: "brokerrecords").url
        process.arguments = arguments
        process.currentDirectoryURL = context.package.directoryURL
        try process.run()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { return Diagnostics.error("No structs were written.") }
    }
}
