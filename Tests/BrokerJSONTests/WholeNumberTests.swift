import BrokerJSON
import Testing

@Suite(.timeLimit(.minutes(5))) struct WholeNumberTests {
    private func whole(_ text: String) throws -> Int64? {
        let document = try JSONDocument(parsing: JSONText(copying: Array(text.utf8)))
        return withExtendedLifetime(document) { document.root.wholeNumber }
    }

    @Test(arguments: [
        ("5", 5), ("5.0", 5), ("-5.000", -5), ("50e-1", 5), ("0.5e1", 5), ("5E+0", 5), ("0", 0), ("-0.0", 0),
        ("0e99999", 0),
        ("120e2", 12_000), ("9223372036854775807.0", .max), ("-9223372036854775808.0", .min),
        ("0.00000000000000000005e20", 5), ("922337203685477580700e-2", .max),
    ])
    func `a number with a whole value is whole however it is written`(_ text: String, _ value: Int64) throws {
        #expect(try whole(text) == value)
    }

    @Test(arguments: [
        "5.5", "1e-1", "9223372036854775808", "9223372036854775808.0", "-9223372036854775809.0", "1e19",
        "1e999999999999",
        "1e-999999999999", "\"5\"", "[5]", "null",
    ])
    func `any other value is not`(_ text: String) throws { #expect(try whole(text) == nil) }
}
