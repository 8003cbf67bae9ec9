import BrokerJSON
import Testing

@Suite struct JSONDocumentTests {
    @Test func `numbers keep their text`() throws {
        let document = try JSONDocument(parsing: JSONText(copying: Array("[12345678901234567890.10, 9223372036854775807]".utf8)))
        let values = document.root.elements.map { String(decoding: $0.bytes, as: UTF8.self) }
        #expect(values == ["12345678901234567890.10", "9223372036854775807"])
    }
}
