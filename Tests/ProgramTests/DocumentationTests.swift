import Foundation
import Testing

/// The articles of the libraries and the README show only code that is compiled and run, and their tables are complete.
@Suite(.timeLimit(.minutes(5))) struct DocumentationTests {
    private static let pages = ["README.md"] + files(of: ["Broker", "BrokerClient", "BrokerEmbedded"], suffix: ".md")
    private static let sources = files(of: ["Broker", "BrokerClient", "BrokerEmbedded"], suffix: ".swift")
    /// Their code is run: by the tests here, and by `scripts/examples`.
    private static let folders = ["Tests/ProgramTests/Snippets", "Tests/Embedding", "Tests/Examples"]

    private static func files(of targets: [String], suffix: String) -> [String] {
        targets.flatMap { (try? Repository.files(in: "Sources/\($0)", suffix: suffix)) ?? [] }
    }

    @Test func `there are articles and comments with code`() throws {
        #expect(Self.pages.count > 8, "\(Self.pages)")
        #expect(try Self.sources.filter { try !Repository.codeBlocks(of: $0).isEmpty }.count > 6)
    }

    @Test(arguments: pages + sources)
    func `each piece of Swift code is a part of a program that is run`(page: String) throws {
        let programs = try Self.folders.flatMap { try Repository.files(in: $0, suffix: ".swift") }
            .map { try Repository.text(of: $0).components(separatedBy: "\n") }
        for block in try Repository.codeBlocks(of: page) where block.language == "swift" {
            let lines = block.text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init).dropLast()
            guard !lines.allSatisfy({ $0.hasPrefix(".package(") || $0.hasPrefix(".product(") || $0.isEmpty }) else {
                try checkManifest(Array(lines))
                continue
            }
            #expect(
                programs.contains { has(Array(lines), in: $0) },
                "\(page) has code that is in no program:\n\(block.text)")
        }
    }

    /// Whether a program has the lines, one after the other and indented as a whole. Imports may be anywhere.
    private func has(_ block: [String], in program: [String]) -> Bool {
        let imports = block.filter { $0.hasPrefix("import ") }
        guard imports.allSatisfy(program.contains) else { return false }
        let lines = Array(block.filter { !$0.hasPrefix("import ") }.drop(while: \.isEmpty))
        guard let first = lines.first else { return true }
        return program.indices.contains { start in
            guard program[start].hasSuffix(first), start + lines.count <= program.count else { return false }
            let indentation = program[start].dropLast(first.count)
            return indentation.allSatisfy { $0 == " " }
                && zip(lines, program[start...]).allSatisfy { $0.isEmpty ? $1.isEmpty : $1 == indentation + $0 }
        }
    }

    /// The lines of a manifest name products and traits that the package has.
    private func checkManifest(_ lines: [String]) throws {
        let manifest = try Repository.text(of: "Package.swift")
        for line in lines {
            if let product = line.firstMatch(of: /\.product\(name: "(\w+)"/) {
                #expect(manifest.contains(".library(name: \"\(product.1)\""))
            }
            for trait in line.components(separatedBy: "traits:").dropFirst().joined().matches(of: /"(\w+)"/) {
                #expect(manifest.contains("name: \"\(trait.1)\""))
            }
        }
    }

    @Test func `the article about errors has each code once, and no other`() throws {
        let source = try Repository.text(of: "Sources/Broker/BrokerError.swift")
        let codes = source.matches(of: /= Self\(rawValue: "(\w+)"\)/).map { String($0.1) }
        #expect(codes.count > 40)
        let page = try Repository.text(of: "Sources/Broker/Broker.docc/Errors.md")
        let named = page.components(separatedBy: "\n").filter { $0.hasPrefix("| `") }
            .flatMap { $0.split(separator: "|")[0].matches(of: /`(\w+)`/).map { String($0.1) } }
        #expect(named.sorted() == codes.sorted())
    }

    @Test func `the article about observing has each metric, and no other`() throws {
        let files = try ["Sources/BrokerClient", "Sources/BrokerRequests"].flatMap {
            try Repository.files(in: $0, suffix: ".swift")
        }
        let metrics = try files.flatMap {
            try Repository.text(of: $0).matches(of: /"(broker_(?:client|embedded)_\w+)"/).map { String($0.1) }
        }
        let page = try Repository.text(of: "Sources/BrokerClient/BrokerClient.docc/Observing.md")
        let named = page.matches(of: /\| `(broker_\w+)` \|/).map { String($0.1) }
        #expect(named.sorted() == Set(metrics).sorted())
    }
}
