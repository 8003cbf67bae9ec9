import Foundation
import TestSupport
import Testing

/// Real payloads that are loaded without a model, as `Tests/Corpus/README.md` describes them.
@Suite(.timeLimit(.minutes(10))) struct CorpusTests {
    struct Payload: Decodable {
        let file: String
        let entity: String
        let records: Int
        let identity: [String]?
        let alternatives: [[String]]?
        let refusal: String?
    }

    private struct Summary: Decodable {
        struct Changes: Decodable {
            let inserted: Int
            let updated: Int
            let unchanged: Int
            let deleted: Int
        }
        struct Warning: Decodable {
            let code: String
        }

        let changes: [String: Changes]
        let warnings: [Warning]
    }

    private static let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "Corpus")

    private let programs: Programs

    init() throws { programs = try Programs() }

    private func load(_ payload: Payload) throws -> (result: Programs.Result, summary: Summary?) {
        let result = try programs.run(
            "broker",
            ["submit", "--entity", payload.entity, "--store", payload.file + ".sqlite", "--json"]
                + [Self.folder.appending(path: payload.file).path])
        guard result.status == 0 else { return (result, nil) }
        return (result, try JSONDecoder().decode(Summary.self, from: Data(result.output.utf8)))
    }

    /// Keys of the records; an attribute that has the key of a dictionary is `@key`.
    private func identity(_ payload: Payload) throws -> [String]? {
        struct Model: Decodable {
            struct Entity: Decodable {
                struct Attribute: Decodable { let key: Key? }
                let identity: Identity?
                let attributes: [String: Attribute]?
            }
            let entities: [String: Entity]
        }
        struct Key: Decodable {
            /// Nil without one.
            let first: String?
            init(from decoder: any Decoder) throws {
                let container = try decoder.singleValueContainer()
                if let text = try? container.decode(String.self) {
                    first = text
                } else if let texts = try? container.decode([String].self) {
                    first = texts.first
                } else {
                    first = try container.decode([[String]].self).first?.joined(separator: ".")
                }
            }
        }
        enum Identity: Decodable {
            case one(String), several([String])
            init(from decoder: any Decoder) throws {
                let container = try decoder.singleValueContainer()
                if let one = try? container.decode(String.self) {
                    self = .one(one)
                } else {
                    self = .several(try container.decode([String].self))
                }
            }
        }
        let data = try Data(contentsOf: URL(filePath: programs.path(payload.file + ".model.json")))
        guard let entity = try JSONDecoder().decode(Model.self, from: data).entities[payload.entity] else { return nil }
        let names: [String] =
            switch entity.identity {
            case nil: []
            case .one(let name): [name]
            case .several(let names): names
            }
        return names.isEmpty
            ? nil : names.map { entity.attributes?[$0]?.key.map { $0.first ?? "@key" } ?? $0 }
    }

    /// The keys as a set, without the sign of an XML attribute; the name of a nameless first column is empty.
    private static func plain(_ keys: [String]) -> Set<String> {
        Set(keys.map { $0.hasPrefix("@") && $0 != "@key" ? String($0.dropFirst()) : $0 == "column_1" ? "" : $0 })
    }

    @Test
    func
        `real payloads load whole; an identity is one that a person would choose, and with it they are unchanged again`()
        throws
    {
        let all = try JSONDecoder().decode(
            [Payload].self, from: Data(contentsOf: Self.folder.appending(path: "expected.json")))
        // One in eight before a commit.
        let payloads = Cases.areAll ? all : all.enumerated().filter { $0.offset % 8 == 0 }.map(\.element)
        var (unchanged, right, identified, loaded, refused) = (0, 0, 0, 0, 0)
        var misses: [String] = []
        for payload in payloads {
            let (first, summary) = try load(payload)
            guard let summary else {
                let files = try FileManager.default.contentsOfDirectory(atPath: programs.folder)
                #expect(first.status == 1 && first.complaints.hasPrefix("broker: "), "\(payload.file): \(first)")
                #expect(
                    !files.contains(payload.file + ".model.json") || first.complaints.contains("committed"),
                    "a payload of which nothing is stored leaves a model: \(payload.file)")
                if payload.refusal == nil {
                    misses.append("\(payload.file): \(first.complaints)")
                } else {
                    refused += 1
                }
                continue
            }
            loaded += 1
            #expect((summary.changes[payload.entity]?.inserted ?? 0) >= payload.records, "\(payload.file): \(first)")
            #expect(!summary.warnings.contains { $0.code == "unknownKey" }, "\(payload.file): \(first.output)")
            guard let identity = try identity(payload) else { continue }
            identified += 1
            let choices = ([payload.identity] + (payload.alternatives ?? [])).map { $0.map(Self.plain) }
            if choices.contains(Self.plain(identity)) {
                right += 1
            } else {
                misses.append("\(payload.file): identity \(identity)")
            }
            let (second, again) = try load(payload)
            if let again, again.changes.values.allSatisfy({ $0.inserted + $0.updated + $0.deleted == 0 }) {
                unchanged += 1
            } else {
                misses.append("\(payload.file): again \(second)")
            }
        }
        // The goals of loading without a model; the misses are known cases without one answer.
        let report = misses.joined(separator: "\n")
        #expect(loaded + refused >= payloads.count - 1, "\(report)")
        #expect(unchanged == identified, "\(report)")
        #expect(Double(right) >= 0.9 * Double(identified), "\(report)")
    }

    @Test func `each line of the guide from a first load to a refined model works`() throws {
        for file in ["iso_3166-1.json", "github_events.json", "stocks.csv"] {
            try FileManager.default.copyItem(
                at: Self.folder.appending(path: file), to: URL(filePath: programs.path(file)))
        }
        let guide = try String(
            contentsOf: Self.folder.deletingLastPathComponent().deletingLastPathComponent()
                .appending(path: "protocol/guides/importing.md"), encoding: .utf8)
        let part = try #require(
            guide.components(separatedBy: "### From a first load").last?.components(separatedBy: "\n### ").first)
        let blocks = part.components(separatedBy: "```sh\n").dropFirst().compactMap {
            $0.components(separatedBy: "```").first
        }
        #expect(blocks.count == 3)
        let built = programs.executable("broker").deletingLastPathComponent().path
        var outputs: [String] = []
        for line in blocks.joined().split(separator: "\n") {
            let result = try programs.shell("PATH=\"\(built):$PATH\"; \(line)")
            #expect(result.status == 0, "\(line): \(result)")
            outputs.append(result.output)
        }
        #expect(outputs[1].contains("249  "), "\(outputs[1])")
        #expect(outputs[2] == "Switzerland\n", "\(outputs[2])")
        #expect(outputs[5].contains("PushEvent|"), "\(outputs[5])")
        #expect(outputs[7].contains("\"symbol\":\"AAPL\""), "\(outputs[7])")
    }
}
