import Foundation
import Testing

/// The examples of `protocol/guides/moving.md` work unchanged.
@Suite(.timeLimit(.minutes(5))) struct MovingGuideTests {
    private struct Block {
        /// The words after the backticks.
        let words: [String]
        let text: String
    }

    /// The blocks of each chapter, by its heading.
    private static func chapters() throws -> [(name: String, blocks: [Block])] {
        let page = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../protocol/guides/moving.md").standardizedFileURL
        var chapters: [(name: String, blocks: [Block])] = []
        var open: (words: [String], lines: [String])?
        for line in try String(contentsOf: page, encoding: .utf8).components(separatedBy: "\n") {
            if let block = open {
                if line == "```" {
                    chapters[chapters.count - 1].blocks.append(
                        Block(words: block.words, text: block.lines.joined(separator: "\n")))
                    open = nil
                } else {
                    open?.lines.append(line)
                }
            } else if line.hasPrefix("```") {
                open = (line.dropFirst(3).split(separator: " ").map(String.init), [])
            } else if line.hasPrefix("## ") {
                chapters.append((String(line.dropFirst(3)), []))
            }
        }
        return chapters
    }

    @Test func `every example of the moving guides leaves the rows that it shows`() throws {
        let chapters = try Self.chapters()
        #expect(chapters.map(\.name) == ["MagicalRecord", "Groot", "Sync (hyper)", "RestKit"])
        for (name, blocks) in chapters {
            var programs = try Programs()
            var models: [String] = []
            var queries = 0
            for block in blocks {
                switch block.words.first {
                case "xml":
                    // Another model is another app.
                    if !models.isEmpty { programs = try Programs() }
                    models = ["--model", "App.xcdatamodel"]
                    try FileManager.default.createDirectory(
                        atPath: programs.path("App.xcdatamodel"), withIntermediateDirectories: true)
                    try programs.write("<model>\n\(block.text)\n</model>", to: "App.xcdatamodel/contents")
                case "json" where block.words.count > 1 && block.words[1].hasSuffix(".json"):
                    try programs.write(block.text, to: block.words[1])
                    models += ["--model", block.words[1]]
                case "json":
                    let reading =
                        switch block.words.dropFirst().first {
                        case nil: [] as [String]
                        case "--path": ["--path", block.words[2]]
                        case let entity?: ["--entity", entity]
                        }
                    let result = try programs.run(
                        "broker", ["submit", "--store", "app.sqlite"] + models + reading, input: block.text)
                    #expect(result.status == 0, "\(name): \(result.complaints)")
                case "sql":
                    queries += 1
                    let lines = block.text.split(separator: "\n").map(String.init)
                    let expected = lines.filter { $0.hasPrefix("-- ") }.map { String($0.dropFirst(3)) }
                    let query = lines.filter { !$0.hasPrefix("-- ") }.joined(separator: "\n")
                    #expect(try Database(programs.path("app.sqlite")).rows(query) == expected, "\(name)")
                default: Issue.record("\(name): a block of \(block.words)")
                }
            }
            #expect(queries > 0, "\(name) shows nothing")
        }
    }
}
