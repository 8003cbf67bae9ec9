import Foundation
import FuzzTargets
import Testing

/// Every stored input: seeds, and former findings.
@Suite(.timeLimit(.minutes(5))) struct CorpusTests {
    private static let folder = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "Fuzz/Corpora")

    @Test(arguments: fuzzTargets.map(\.name))
    func `the stored inputs of a target have no finding`(name: String) throws {
        let type = try #require(fuzzTargets.first { $0.name == name }?.type)
        let files = try FileManager.default.contentsOfDirectory(
            at: Self.folder.appending(path: name), includingPropertiesForKeys: nil)
        #expect(!files.isEmpty)
        let target = try type.init()
        for file in files {
            let bytes = try Data(contentsOf: file)
            do {
                try bytes.withUnsafeBytes(target.run)
                // Beginnings of it as well, so that bounds are met.
                for count in stride(from: 0, to: bytes.count, by: 1 + bytes.count / 16) {
                    try bytes.prefix(count).withUnsafeBytes(target.run)
                }
            } catch {
                Issue.record("\(file.lastPathComponent): \(error)")
            }
        }
    }

    @Test func `every folder of inputs is a target's`() throws {
        let folders = try FileManager.default.contentsOfDirectory(atPath: Self.folder.path)
        #expect(folders.sorted() == fuzzTargets.map(\.name).sorted())
    }
}
