import BrokerJSON
import BrokerWire
import Foundation
import Testing

/// The frames of `protocol/examples` hold what the JSON beside them says, and both are messages of the protocol.
@Suite(.timeLimit(.minutes(5))) struct GoldenFrameTests {
    private static let folder = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().appendingPathComponent("../../protocol/examples").standardizedFileURL

    private static let answers: Set<String> = [
        "welcome", "completed", "failed", "error", "accepted", "progress", "cancelled", "objects", "done",
        "stats", "jobs", "model", "subscribed", "committed",
        "bookmark",
    ]

    private static func names(_ suffix: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder.path)
            .filter { $0.hasSuffix(suffix) }.map { String($0.dropLast(suffix.count)) }.sorted()
    }

    private static func bytes(_ name: String) throws -> [UInt8] {
        Array(try Data(contentsOf: folder.appendingPathComponent(name)))
    }

    @Test func `every example is a pair`() throws {
        let names = try Self.names(".frame")
        #expect(names.count >= 8)
        #expect(names == (try Self.names(".json")))
    }

    @Test func `every frame holds the JSON beside it, byte for byte`() throws {
        for name in try Self.names(".frame") {
            let content = try content(ofFrame: Self.bytes("\(name).frame"))
            #expect(content == (try Self.bytes("\(name).json")), "\(name)")
        }
    }

    @Test func `every example is a message`() throws {
        for name in try Self.names(".json") {
            let text = JSONText(copying: try Self.bytes("\(name).json"))
            let kind = name.split(separator: "-").first.map(String.init) ?? name
            if Self.answers.contains(kind) {
                let message = "\(try ServerEnvelope.decode(parsing: text).message)"
                #expect(message.hasPrefix(kind), "\(name)")
            } else {
                let message = "\(try ClientEnvelope.decode(parsing: text).message)"
                // These are actions of `admin` with fields of their own.
                let actions = ["admin-backup": "backup", "admin-migrate": "migrate"]
                #expect(message.hasPrefix(actions[name] ?? kind), "\(name)")
            }
        }
    }

    @Test func `the examples cover linked and independent blocks, sizes and checksums`() throws {
        let flags = try Self.names(".frame").map { try Self.bytes("\($0).frame")[8] }
        for (bit, meaning) in [(0x20, "independent"), (0x10, "block checksum"), (8, "size"), (4, "content checksum")] {
            #expect(flags.contains { Int($0) & bit != 0 } && flags.contains { Int($0) & bit == 0 }, "\(meaning)")
        }
    }
}
