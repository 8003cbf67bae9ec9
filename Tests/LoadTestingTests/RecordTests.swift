import BrokerJSON
import LoadTesting
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(5)))
struct RecordTests {
    private func text(_ options: RecordOptions, _ numbers: Range<Int>, version: Int = 0) -> [String] {
        var generator = GeneratedRecords(options)
        return numbers.map { number in
            var bytes: [UInt8] = []
            generator.write(number, version: version, to: &bytes)
            return String(decoding: bytes, as: UTF8.self)
        }
    }

    private func parse(_ text: String) throws -> JSONDocument {
        try JSONDocument(parsing: JSONText(copying: Array(text.utf8)))
    }

    /// All that is chance is in these.
    private static func varying(_ shape: RecordShape, seed: UInt64) -> RecordOptions {
        RecordOptions(shape: shape, presence: 0.6, nulls: 0.3, keyOrder: .random, keys: .uuid, seed: seed)
    }

    @Test(arguments: RecordShape.allCases)
    func `the same seed gives the same records, and another seed others`(shape: RecordShape) {
        let seed = SeededGenerator.testSeed()
        let records = text(Self.varying(shape, seed: seed), 0..<50)
        #expect(text(Self.varying(shape, seed: seed), 0..<50) == records)
        #expect(text(Self.varying(shape, seed: seed &+ 1), 0..<50) != records)
        // The record of a number needs none before it.
        #expect(text(Self.varying(shape, seed: seed), 40..<50) == records.suffix(10))
    }

    @Test(arguments: RecordShape.allCases)
    func `every record is an object whose keys the layout has`(shape: RecordShape) throws {
        let options = Self.varying(shape, seed: 7)
        let keys = Set(RecordLayout(options).fields.map(\.key))
        for record in text(options, 0..<200) {
            let document = try parse(record)
            #expect(document.root.kind == .object)
            let found = document.root.members.map { String(decoding: $0.key.bytes, as: UTF8.self) }
            #expect(Set(found).isSubset(of: keys))
            #expect(Set(found).count == found.count)
            #expect(found.contains("id"))
        }
    }

    @Test func `two versions of a record differ in every value but its identity and links`() throws {
        for (shape, links) in [(RecordShape.nested, ["department"]), (.ragged, [])] {
            let options = RecordOptions(shape: shape, presence: 1)
            for (first, second) in zip(text(options, 0..<300), text(options, 0..<300, version: 1)) {
                let (before, after) = (try parse(first), try parse(second))
                for field in RecordLayout(options).fields {
                    let isSame = before.root[field.key]?.jsonText == after.root[field.key]?.jsonText
                    #expect(isSame == (field.key == "id" || links.contains(field.key)), "\(first) \(second)")
                }
            }
        }
    }

    @Test func `presence and nulls are as probable as was asked for`() throws {
        let options = RecordOptions(shape: .ragged, attributes: 20, presence: 0.25, nulls: 0.5, seed: 3)
        var (there, null) = (0, 0)
        for record in text(options, 0..<2_000) {
            let document = try parse(record)
            withExtendedLifetime(document) {
                for (key, value) in document.root.members where key.string != "id" {
                    there += 1
                    if value.isNull { null += 1 }
                }
            }
        }
        // A hundredth is more than four times the deviation of 40,000 draws.
        #expect(abs(Double(there) / 40_000 - 0.25) < 0.01)
        #expect(abs(Double(null) / Double(there) - 0.5) < 0.03)
    }
}
