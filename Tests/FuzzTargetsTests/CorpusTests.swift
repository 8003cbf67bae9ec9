import Foundation
import FuzzTargets
import TestSupport
import Testing

/// Every stored input: seeds, and former findings, whole, cut off and damaged.
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
        var generator = SeededGenerator(for: name)
        for file in files {
            let bytes = try Data(contentsOf: file)
            do {
                try bytes.withUnsafeBytes(target.run)
                // Beginnings of it as well, so that bounds are met.
                for count in stride(from: 0, to: bytes.count, by: 1 + bytes.count / 16) {
                    try bytes.prefix(count).withUnsafeBytes(target.run)
                }
                for _ in 0..<Cases.count(8, of: 200) where !bytes.isEmpty {
                    var damaged = bytes
                    for _ in 0..<Int.random(in: 1...8, using: &generator) {
                        let place = Int.random(in: 0..<damaged.count, using: &generator)
                        damaged[damaged.startIndex + place] ^= 1 << UInt8.random(in: 0...7, using: &generator)
                    }
                    try damaged.withUnsafeBytes(target.run)
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
