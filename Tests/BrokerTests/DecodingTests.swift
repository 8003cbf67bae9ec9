import Broker
import Foundation
import Testing

/// The values of typed fetches.
@Suite(.timeLimit(.minutes(5))) struct DecodingTests {
    private struct Amount: Decodable {
        var id: Int
        var amount: Decimal
    }

    private func fetched(_ json: String) -> RawJSON { RawJSON(json) }

    @Test func `a number that a Decimal cannot hold is an error with its path, and its raw text can be had`() throws {
        let digits = "12345678901234567890123456789012345678901234567890"
        let json = fetched(#"[{"id":1,"amount":1.5},{"id":2,"amount":\#(digits)}]"#)
        do {
            _ = try json.decode([Amount].self)
            Issue.record("digits were lost")
        } catch DecodingError.dataCorrupted(let context) {
            #expect(context.codingPath.map(\.stringValue) == ["Index 1", "amount"])
            #expect(context.debugDescription.contains("49 significant digits"))
            #expect(context.debugDescription.contains("RawJSON"))
        }
        struct Exact: Decodable { var amount: RawJSON }
        #expect(try json.decode([Exact].self).map(\.amount.description) == ["1.5", digits])
    }

    @Test(arguments: [
        ("0", true), ("-0.0", true), ("0.1", true), ("-12.50", true), ("12345678901234567890123456789012345678", true),
        ("99999999999999999999999999999999999999", true), ("0.00012345678901234567890123456789012345678", true),
        ("1e127", true), ("1e-128", true), ("123456789012345678901234567890123456789", false), ("1e-129", false),
        ("1e400", false), ("1e-99999999999999999999", false), ("1000000000000000000000000000000000000000000", true),
        ("0.3333333333333333333333333333333333333333333333", false), ("0e999", true),
    ])
    func `a Decimal is the number that was written, or an error`(text: String, isExact: Bool) throws {
        guard isExact else {
            #expect(throws: DecodingError.self) { try fetched(text).decode(Decimal.self) }
            return
        }
        let decimal = try fetched(text).decode(Decimal.self)
        // Written again, it reads as the same digits at the same place.
        #expect(normal("\(decimal)") == normal(text))
    }

    @Test func `a Decimal is written with all its digits, and one that is no number is an error`() throws {
        for text in [
            "0", "0.1", "-12.5", "12345678901234567890123456789012345678", "0.12345678901234567890123456789012345678",
        ] {
            let decimal = try #require(Decimal(string: text))
            #expect(try RawJSON(value: decimal).description == text)
            #expect(try RawJSON(encoding: ["a": decimal]).decode([String: Decimal].self) == ["a": decimal])
        }
        #expect(try RawJSON(value: ["NaN"]).description == #"["NaN"]"#)
        let error = #expect(throws: BrokerError.self) { try RawJSON(value: ["a": Decimal.nan]) }
        #expect(error?.code == .notEncodable)
    }

    /// The digits without zeros at either end, and the power of ten of the last one.
    private func normal(_ text: String) -> String {
        let parts = text.lowercased().split(separator: "e")
        let negative = parts[0].hasPrefix("-")
        let mantissa = parts[0].drop { $0 == "-" }.split(separator: ".", omittingEmptySubsequences: false)
        var digits = mantissa.joined()
        var exponent = (parts.count > 1 ? Int(parts[1])! : 0) - (mantissa.count > 1 ? mantissa[1].count : 0)
        digits = String(digits.drop { $0 == "0" })
        while digits.last == "0" {
            digits.removeLast()
            exponent += 1
        }
        return digits.isEmpty ? "0" : "\(negative ? "-" : "")\(digits)e\(exponent)"
    }

    @Test func `dates are read with and without a time and a fraction, and as seconds`() throws {
        let dates = try fetched(
            #"["2011-12-22","2011-12-22T00:00:00Z","2011-12-22T00:00:00.000Z",1324512000,"2011-12-22T01:00:00+01:00"]"#
        ).decode([Date].self)
        #expect(dates == Array(repeating: Date(timeIntervalSince1970: 1_324_512_000), count: 5))
        for text in [#""22.12.2011""#, #""2011-13-22""#, #""2011-12-22x""#, "true"] {
            #expect(throws: DecodingError.self) { try fetched(text).decode(Date.self) }
        }
    }

    @Test func `values of every shape are read as Foundation's decoder reads them`() throws {
        struct Whole: Codable, Equatable {
            enum Kind: String, Codable { case a, b }
            var int: Int, small: Int8, unsigned: UInt64, double: Double, float: Float, bool: Bool, text: String
            var none: Int?, missing: String?, list: [Int?], map: [String: [Int]], byNumber: [Int: String]
            var kind: Kind, kinds: [Kind], url: URL, data: Data, nested: [[String: Bool]], whole: Int
            var members: [String: Int]
        }
        let members = (0..<40).map { #""k\#($0)":\#($0)"# }.joined(separator: ",")
        let text = """
            {"int":-7,"small":127,"unsigned":18446744073709551615,"double":1.5e3,"float":0.5,"bool":true,"text":"a\\nü",
             "none":null,"list":[1,null,3],"map":{"a":[1],"b":[]},"byNumber":{"7":"x"},"kind":"b","kinds":["a"],
             "url":"https://a.b/c","data":"AQID","nested":[{"x":true}],"whole":3.0,"members":{\(members)},"int":-8}
            """
        let own = try fetched(text).decode(Whole.self)
        #expect(
            own == (try JSONDecoder().decode(Whole.self, from: Data(text.replacing(#"{"int":-7,"#, with: "{").utf8))))
        #expect(own.int == -8)
        for (wrong, type) in [("128", "small"), ("1.5", "int"), ("\"1\"", "int"), ("1", "text"), ("null", "int")] {
            let broken = text.replacing(#""int":-8"#, with: #""\#(type)":\#(wrong)"#)
            #expect(throws: DecodingError.self, "\(type) \(wrong)") { try fetched(broken).decode(Whole.self) }
        }
        #expect(throws: DecodingError.self) { try fetched("[1").decode([Int].self) }
        #expect(throws: DecodingError.self) { try fetched("[]").decode(Pair.self) }
    }

    private struct Pair: Decodable {
        init(from decoder: any Decoder) throws {
            var container = try decoder.unkeyedContainer()
            _ = try container.decode(Int.self)
        }
    }
}
