import BrokerJSON
import Testing

@testable import BrokerModelSources

@Suite(.timeLimit(.minutes(5))) struct ScalarShapeTests {
    private func shape(_ values: String) throws -> ScalarShape {
        let document = try JSONDocument(parsing: JSONText(copying: Array("[\(values)]".utf8)))
        var shape = ScalarShape()
        withExtendedLifetime(document) { for value in document.root.elements { shape.observe(value) } }
        return shape
    }

    @Test(arguments: [
        (#""1", "-20", "0""#, "integer64"), (#""1", "007""#, "string"), (#""1", "+5""#, "string"),
        (#""1", "1.5""#, "double"), (#""1", "9223372036854775808""#, "decimal"), (#""0.1234567890123456""#, "decimal"),
        (#""1", "x""#, "string"), (#""1", """#, "string"), (#""true", "False""#, "boolean"),
        (#""true", "no""#, "string"),
        (#""yes", "No""#, "boolean"), (#""NO", "NO""#, "string"), (#""yes""#, "string"), (#""0", "1""#, "integer64"),
        (#""2012-09-24T00:00:00Z", "2012-09-24""#, "date"), (#""2012", "2012-09-24""#, "string"),
    ])
    func `texts of formats without types have the type that all of them have`(values: String, type: String) throws {
        #expect(try shape(values).type(key: "a", readsTexts: true).name == type)
        // JSON has types, so that a text is one.
        let written = try shape(values).type(key: "a").name
        #expect(written == (type == "date" ? "date" : "string"))
    }

    @Test(arguments: [
        (#""5/9/2012", "24/9/2012""#, ["dd/MM/yyyy"]), (#""5/9/2012", "9/24/2012""#, ["MM/dd/yyyy"]),
        (#""5/9/2012""#, []),
        (#""24/9/2012", "9/24/2012""#, []), (#""05-09-2012", "24-09-2012""#, ["dd-MM-yyyy"]),
        (#""5.9.2012""#, ["dd.MM.yyyy"]),
        (#""5.9.2012", "5/9/2012""#, []),
    ])
    func `the order of day and month is that which all texts allow`(values: String, formats: [String]) throws {
        let type = try shape(values).type
        #expect(type.name == (formats.isEmpty ? "string" : "calendarDate"))
        #expect(type.members.map { $0.json.replacing("\\/", with: "/") } == formats.map { "\"\($0)\"" })
    }

    @Test(arguments: ["zip", "Postal Code", "homePhone", "ean"])
    func `numbers at the key of a code remain texts`(key: String) throws {
        #expect(try shape(#""10115", "20095""#).type(key: key, readsTexts: true).name == "string")
    }

    @Test(arguments: [
        ("created_at", "1348457721", true), ("createdAt", "1348457721, 1600000000.5", true),
        ("time", "1348457721", true),
        ("Last Modified", "1348457721000, 1600000000000", true), ("dateAdded", "1348457721", true),
        ("created_at", "1348457721, 5", false), ("created_at", "1348457721, 1348457721000", false),
        ("created_at", "631152000000", false), ("runtime", "1348457721", false), ("id", "1348457721", false),
        ("at", "5", false), ("created_at", "1348457721, \"x\"", false),
    ])
    func `numbers are dates when the key and all values say so`(key: String, values: String, isDate: Bool) throws {
        let type = try shape(values).type(key: key)
        #expect((type.name == "date") == isDate)
        #expect(type.members.map(\.json) == (isDate ? [#""UnixTime""#] : []))
        guard !values.contains("\"") else { return }
        let texts = values.split(separator: ", ").map { "\"\($0)\"" }.joined(separator: ",")
        #expect((try shape(texts).type(key: key, readsTexts: true).name == "date") == isDate)
        #expect(try shape(texts).type(key: key).name == "string")
    }

    @Test func `shapes of two places have the evidence of both`() throws {
        var first = try shape(#""yes", "yes""#)
        first.merge(try shape(#""no""#))
        #expect(first.type(key: "a", readsTexts: true).name == "boolean")
        var second = try shape("1348457721")
        second.merge(try shape("5, 1348457721"))
        #expect(second.type(key: "time").name == "integer64")
        second.merge(ScalarShape())
        #expect(second.type(key: "time").name == "integer64")
    }
}
