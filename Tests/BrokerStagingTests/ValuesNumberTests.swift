import BrokerModel
import Testing

@testable import BrokerStaging

@Suite(.timeLimit(.minutes(5))) struct ValuesNumberTests {
    private func check(_ type: AttributeType, _ cases: [(String, StoredValue)]) throws {
        let converter = try ValueConverter.compiled(Attribute(name: "value", type: type))
        for (json, expected) in cases {
            #expect(try converter.stored(json) == expected, "\(type) \(json)")
        }
    }

    @Test func `integers are accepted in every exact form`() throws {
        try check(
            .integer64,
            [
                ("0", .integer(0)), ("-0", .integer(0)), ("42", .integer(42)), ("3.0", .integer(3)),
                ("1e1", .integer(10)), ("1e3", .integer(1000)), ("1.5e1", .integer(15)), ("1500e-2", .integer(15)),
                ("-2.50E+1", .integer(-25)),
                ("9223372036854775807", .integer(.max)), ("-9223372036854775808", .integer(.min)),
                ("9223372036854775807.000", .integer(.max)), ("0e999999999999", .integer(0)),
                ("0.000e-99999999999999999999", .integer(0)), ("true", .integer(1)), ("false", .integer(0)),
                ("\"42\"", .integer(42)), ("\"+42\"", .integer(42)), ("\"-7\"", .integer(-7)),
                ("\"007\"", .integer(7)), ("\"00000000000000000000012\"", .integer(12)), ("\"3.0\"", .integer(3)),
                ("\"5.\"", .integer(5)), ("\"1e2\"", .integer(100)), ("\"\\u0034\"", .integer(4)), ("null", .null),
            ])
    }

    @Test func `integers that would lose information are rejected`() throws {
        for json in [
            "3.7", "1e-1", "15e-1", "9223372036854775808", "-9223372036854775809", "1e19", "1e999999999999",
            "0.1e-999999999999", "\"3.7\"", "\"abc\"", "\"\"", "\" 42\"", "\"42 \"", "\"+-4\"", "\"-+4\"", "\"--4\"",
            "\"0x10\"", "\"1_000\"", "\"1,000\"", "\"1e\"", "\"e5\"", "\".\"", "\"-\"", "\"+\"", "\"1e+\"", "\"1.2.3\"",
            "\"inf\"", "\"nan\"", "\"\\u0661\"", "[1]", "{\"a\":1}", "[]",
        ] {
            try check(.integer64, [(json, .inconvertible)])
        }
    }

    @Test func `narrow integers are checked against their range`() throws {
        try check(
            .integer16,
            [
                ("32767", .integer(32767)), ("-32768", .integer(-32768)), ("32768", .inconvertible),
                ("-32769", .inconvertible), ("\"32768\"", .inconvertible), ("3.2768e4", .inconvertible),
            ])
        try check(
            .integer32,
            [
                ("2147483647", .integer(2_147_483_647)), ("-2147483648", .integer(-2_147_483_648)),
                ("2147483648", .inconvertible), ("-2147483649", .inconvertible), ("true", .integer(1)),
            ])
    }

    @Test func `decimals retain every digit in plain notation`() throws {
        try check(
            .decimal,
            [
                (
                    "12345678901234567890.123456789012345678901234567890",
                    .text("12345678901234567890.123456789012345678901234567890")
                ),
                ("1.50", .text("1.50")), ("0", .text("0")), ("-0", .text("0")), ("-0.00", .text("0.00")),
                ("-0.5", .text("-0.5")), ("-12", .text("-12")), ("1e3", .text("1000")), ("1E-3", .text("0.001")),
                ("1.50e1", .text("15.0")), ("1.5e3", .text("1500")), ("-1.5e-3", .text("-0.0015")),
                ("0e5", .text("0")), ("0.0e1", .text("0")), ("0.05e1", .text("0.5")), ("0e-2", .text("0.00")),
                ("1e0", .text("1")), ("true", .text("1")), ("false", .text("0")),
                ("\"+1.50\"", .text("1.50")), ("\"007.10\"", .text("7.10")), ("\"-00\"", .text("0")),
                ("\".5\"", .text("0.5")), ("\"5.\"", .text("5")), ("\"-.5\"", .text("-0.5")), ("\"1e2\"", .text("100")),
                ("1e999", .text("1" + String(repeating: "0", count: 999))),
                ("1e-999", .text("0." + String(repeating: "0", count: 998) + "1")),
                ("1e1000", .inconvertible), ("1e-1001", .inconvertible), ("1e999999999999999999", .inconvertible),
                ("\"abc\"", .inconvertible), ("\"\"", .inconvertible), ("\"1 \"", .inconvertible),
                ("\"1e\"", .inconvertible), ("\"NaN\"", .inconvertible), ("[]", .inconvertible), ("{}", .inconvertible),
            ])
        let digits = String(repeating: "1234567890", count: 300)
        try check(.decimal, [(digits, .text(digits)), ("-0.\(digits)", .text("-0.\(digits)"))])
    }

    @Test func `doubles are the nearest finite value`() throws {
        try check(
            .double,
            [
                ("0.1", .real(0.1)), ("3", .real(3)), ("-1.5e300", .real(-1.5e300)), ("1e-400", .real(0)),
                ("1.7976931348623157e308", .real(.greatestFiniteMagnitude)), ("5e-324", .real(.leastNonzeroMagnitude)),
                ("true", .real(1)), ("false", .real(0)), ("\"2.5\"", .real(2.5)), ("\"+2.5\"", .real(2.5)),
                ("\".5\"", .real(0.5)), ("\"1e400\"", .inconvertible), ("1e309", .inconvertible),
                ("-1e309", .inconvertible), ("\"inf\"", .inconvertible), ("\"nan\"", .inconvertible),
                ("\"0x1p3\"", .inconvertible), ("\"\"", .inconvertible), ("\"1 \"", .inconvertible),
                ("[1]", .inconvertible), ("{}", .inconvertible),
            ])
    }

    @Test func `floats are stored as written, within a float's range`() throws {
        try check(
            .float,
            [
                ("0.1", .real(0.1)), ("3.4e38", .real(3.4e38)), ("3.5e38", .inconvertible), ("-1e39", .inconvertible),
                ("\"1e39\"", .inconvertible), ("3.4028235e38", .real(3.4028235e38)), ("true", .real(1)),
            ])
    }

    @Test func `booleans are the words of the contract and exactly 1 and 0`() throws {
        for word in ["YES", "yes", "true", "TRUE", "tRuE", "t", "T", "y", "Y", "1"] {
            try check(.boolean, [("\"\(word)\"", .integer(1))])
        }
        for word in ["NO", "no", "false", "FALSE", "f", "F", "n", "N", "0"] {
            try check(.boolean, [("\"\(word)\"", .integer(0))])
        }
        try check(
            .boolean,
            [
                ("true", .integer(1)), ("false", .integer(0)), ("1", .integer(1)), ("0", .integer(0)),
                ("1.0", .integer(1)), ("-0.0", .integer(0)), ("10e-1", .integer(1)),
            ])
        for json in [
            "2", "-1", "0.5", "1.01", "\"2\"", "\"\"", "\" yes\"", "\"on\"", "\"yess\"", "\"ye\"", "\"tru\"", "\"1.0\"",
            "[]", "{}",
        ] {
            try check(.boolean, [(json, .inconvertible)])
        }
    }

    @Test func `numbers that need no change are not copied`() throws {
        let converter = try ValueConverter.compiled(Attribute(name: "value", type: .decimal))
        #expect(try converter.storesInPlace("12.50"))
        #expect(try converter.storesInPlace("-12.50"))
        #expect(try !converter.storesInPlace("-0.50"))
    }

    @Test func `rejections state the value, the expected type and the remedy`() throws {
        let age = try ValueConverter.compiled(Attribute(name: "age", type: .integer16))
        #expect(try age.refusal(of: "\"abc\"") == "\"abc\" is not a whole number; attribute \"age\" is integer16")
        #expect(
            try age.refusal(of: "3.7")
                == "3.7 is not a whole number; attribute \"age\" is integer16 (decimal and double keep fractions)")
        #expect(
            try age.refusal(of: "70000")
                == "70000 does not fit attribute \"age\": integer16 holds -32768 to 32767; "
                + "integer64 holds more, and decimal keeps every digit")
        // No other type is named that does not hold the number.
        let (price, weight) = (Attribute(name: "price", type: .decimal), Attribute(name: "weight", type: .double))
        for (attribute, number, remedy) in [
            (price, "1e2000", "string holds it as it is written"),
            (price, "-1e-2000", "string holds it as it is written"),
            (price, "1e-300000000000000000000", "string holds it as it is written"),
            (weight, "1e2000", "string holds it as it is written"), (weight, "1e500", "decimal keeps every digit"),
            (Attribute(name: "n", type: .integer64), "1e2000", "string holds it as it is written"),
        ] {
            let message = try ValueConverter.compiled(attribute).refusal(of: number)
            #expect(message?.hasSuffix(remedy) == true, "\(number): \(message ?? "taken")")
        }
        let long = try #require(try age.refusal(of: "\"" + String(repeating: "é", count: 5000) + "\""))
        #expect(long.hasPrefix("\"" + String(repeating: "é", count: 40) + "…\" is not"))
        #expect(
            try age.refusal(of: "[1, 2]") == "the array [1, 2] is not a whole number; attribute \"age\" is integer16")
    }
}
