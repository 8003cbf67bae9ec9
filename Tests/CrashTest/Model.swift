import Foundation

/// The files of a round's model.
enum Model {
    static let graph = "graph.json"
    /// Beside the graph.
    static let more = "more.json"

    static func write() throws {
        for (name, text) in [(graph, GraphModel.json), (more, CrashJob.model)] {
            try text.write(toFile: name, atomically: true, encoding: .utf8)
        }
    }
}
