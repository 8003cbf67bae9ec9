import BrokerJSON
import BrokerModel
import TestSupport
import Testing

@testable import BrokerModelSources
@testable import BrokerStaging

@Suite(.timeLimit(.minutes(5))) struct TextFormTests {
    private func form(_ text: String) -> TextForm { Array(text.utf8).withUnsafeBufferPointer { TextForm(of: $0) } }

    private static let forms: [(form: TextForm, texts: [String])] = [
        (
            .iso8601,
            [
                "2012-09-24T03:35:21Z", "2012-09-24T03:35:21.123456Z", "2012-09-24 03:35:21.123456789+02:00",
                "2012-09-24T03:35", "2012-09-24 03:35:21,5 +0200", "2012-09-24T03:35:21+02",
            ]
        ),
        ([.day, .iso8601], ["2012-09-24", "2012-02-29"]),
        (.dayWithSlashes, ["2012/09/24"]), (.dayFirstWithDots, ["24.9.2012", "05.09.2012"]),
        (.dayFirstWithSlashes, ["24/09/2012"]), (.monthFirstWithSlashes, ["9/24/2012"]),
        (.dayFirstWithDashes, ["24-09-2012"]), (.monthFirstWithDashes, ["09-24-2012"]),
        ([.dayFirstWithSlashes, .monthFirstWithSlashes], ["5/9/2012"]),
        (.twitter, ["Mon Sep 24 03:35:21 +0000 2012"]),
        (
            .mail,
            [
                "Mon, 24 Sep 2012 03:35:21 GMT", "Mon, 24 Sep 2012 03:35:21 +0000", "Mon, 4 Sep 2012 03:35:21 GMT",
            ]
        ),
        (.slashes, ["2012/09/24 03:35:21 +0000"]),
        (.uuid, ["68753A44-4D6F-1226-9C60-0050E4C00067", "c8753a44-4d6f-1226-9c60-0050e4c00067"]),
        ([.number, .integer], ["0", "-12", "9223372036854775807"]),
        (.number, ["9223372036854775808", "1.50", "1.5e-7", "1e-7"]), (.trueOrFalse, ["true", "False"]),
        (.yesOrNo, ["YES", "no"]),
        (
            [],
            [
                "2012-02-30T03:35:21Z", "2012-09-24T24:00:00Z", "2012-09-24T03:35:60Z", "2012-09-24T03:35:21.Z",
                "2012-09-24T03:35:21X", "0001-01-01T00:00:00+02:00", "2011-02-29", "2012-13-24", "0000-01-01",
                "2012-9-24", "2012/09-24", "24/09-2012", "31/09/2012", "9.24.2012", "24/9/12",
                "24 9 2012", "Mon Sep 31 03:35:21 +0000 2012", "Mon, 24 Sep 2012 03:35:21 EST",
                "c8753a44-4d6f-1226-9c60-0050e4c0006g", "007", "+5", "-0", "12E5", "1.", ".5", "-", "1,5", "1 000",
                "NaN",
                "0x10", "not", "", "https://a.b/",
            ]
        ),
    ]

    @Test func `the form of a text`() {
        for (expected, texts) in Self.forms {
            for text in texts { #expect(form(text) == expected, "\(text)") }
        }
    }

    /// A text of a type's form that the type's conversion refuses would stop the load of a store that its own model
    /// was inferred for.
    @Test func `the conversion reads each text that has the form of its type`() throws {
        var numbers = SeededGenerator()
        let texts = [
            "2012-09-24T03:35:21.123456+02:00", "2012-09-24", "2012/09/24 03:35:21 +0000", "0001-01-01T00:00:00Z",
            "Mon, 24 Sep 2012 03:35:21 GMT", "Mon Sep 24 03:35:21 +0000 2012", "9999-12-31 23:59:59 -0100",
            "68753A44-4D6F-1226-9C60-0050E4C00067", "24/9/2012", "12-31-9999", "1.1.0001",
        ]
        let alphabet = Array("0123456789-+:/. TZ,eJanFebUCGMx".utf8)
        var found = 0
        for _ in 0..<20_000 {
            var bytes = Array(texts.randomElement(using: &numbers)!.utf8)
            for _ in 0..<Int.random(in: 0...2, using: &numbers) {
                bytes[Int.random(in: bytes.indices, using: &numbers)] = alphabet.randomElement(using: &numbers)!
            }
            let text = String(decoding: bytes, as: UTF8.self)
            guard let type = form(text).type else { continue }
            found += 1
            let formats = type.members.filter { $0.key == "format" }.map { String($0.json.dropFirst().dropLast()) }
            let kind = try #require(AttributeType(rawValue: type.name))
            let converter = try ValueConverter.compiled(
                Attribute(name: "a", type: kind, dateFormats: formats.map { $0.replacing("\\/", with: "/") }))
            let document = try JSONDocument(parsing: JSONText(copying: Array("\"\(text)\"".utf8)))
            var arena = ByteArena()
            #expect(throws: Never.self, "\(text)") {
                _ = try withExtendedLifetime(document) { try converter.convert(document.root, arena: &arena) }
            }
        }
        #expect(found > 2_000)
    }

    @Test func `a long text is rejected by its length`() {
        let text = [UInt8](repeating: UInt8(ascii: "1"), count: 10 << 20)
        let duration = ContinuousClock().measure {
            for _ in 0..<1_000 { text.withUnsafeBufferPointer { #expect(TextForm(of: $0) == []) } }
        }
        // To read these texts would take seconds.
        #expect(duration < .seconds(1))
    }
}
