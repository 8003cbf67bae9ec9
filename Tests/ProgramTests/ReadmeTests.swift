import Foundation
import Testing

/// The README says nothing that is not run.
@Suite(.timeLimit(.minutes(5))) struct ReadmeTests {
    private let blocks: [(language: String, text: String)]

    init() throws { blocks = try Repository.codeBlocks(of: "README.md") }

    @Test func `the commands in the README print what it shows`() throws {
        let programs = try Programs()
        let model = try #require(blocks.first { $0.language == "json" }?.text)
        try programs.write(model, to: "model.json")
        let commands = try #require(blocks.firstIndex { $0.language == "sh" && $0.text.hasPrefix("broker submit") })
        let folder = programs.executable("broker").deletingLastPathComponent().path
        let result = try programs.shell("PATH='\(folder)':$PATH\n\(blocks[commands].text)")
        #expect(result.status == 0, "\(result.complaints)")
        #expect(result.output == blocks[commands + 1].text)
    }
}
