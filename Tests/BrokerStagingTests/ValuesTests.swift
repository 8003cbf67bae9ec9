import BrokerModel
import Foundation
import TestSupport
import Testing

@testable import BrokerStaging

@Suite(.timeLimit(.minutes(5))) struct ValuesNumberTests {
    private func check(_ type: AttributeType, _ cases: [(String, StoredValue)]) throws {
        let converter = try ValueConverter.compiled(Attribute(name: "value", type: type))
        for (json, expected) in cases { #expect(try converter.stored(json) == expected, "\(type) \(json)") }
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
        ] { try check(.integer64, [(json, .inconvertible)]) }
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
        ] { try check(.boolean, [(json, .inconvertible)]) }
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
            try age.refusal(of: "70000") == "70000 does not fit attribute \"age\": integer16 holds -32768 to 32767; "
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

@Suite(.timeLimit(.minutes(5))) struct ValuesDecimalTests {
    private func normal(_ text: String) -> String? {
        withBytes(of: text) { bytes, arena in
            NumberText(bytes).flatMap { DecimalText.normalise($0, arena: &arena) }
                .map { String(decoding: $0, as: UTF8.self) }
        }
    }

    private func isOrdered(_ left: String, before right: String) -> Bool {
        withBytes(of: left) { left, _ in
            withBytes(of: right) { right, _ in DecimalText(normal: left) < DecimalText(normal: right) }
        }
    }

    @Test func `decimals compare by value, not by spelling`() {
        let ascending = [
            "-100", "-10.5", "-10.49", "-9", "-0.001", "0", "0.0009", "0.001", "0.01", "9", "10", "10.01", "100",
        ]
        for (index, left) in ascending.enumerated() {
            for (otherIndex, right) in ascending.enumerated() {
                #expect(isOrdered(left, before: right) == (index < otherIndex), "\(left) \(right)")
            }
        }
        withBytes(of: "1.5") { left, _ in
            withBytes(of: "1.500") { right, _ in #expect(DecimalText(normal: left) == DecimalText(normal: right)) }
        }
    }

    @Test func `random decimals retain their value and order`() throws {
        var generator = SeededGenerator(for: "decimals")
        let posix = Locale(identifier: "en_US_POSIX")
        var previous: (text: String, value: Decimal)?
        for _ in 0..<5000 {
            let written = randomNumber(&generator)
            let text = try #require(normal(written))
            let value = try #require(Decimal(string: text, locale: posix))
            #expect(value == Decimal(string: written, locale: posix), "\(written) became \(text)")
            #expect(text.wholeMatch(of: /-?(0|[1-9][0-9]*)(\.[0-9]+)?/) != nil, "\(written) became \(text)")
            #expect(normal(text) == text)
            if let previous {
                #expect(isOrdered(previous.text, before: text) == (previous.value < value), "\(previous.text) \(text)")
            }
            previous = (text, value)
        }
    }

    private func randomNumber(_ generator: inout SeededGenerator) -> String {
        func digits(_ range: ClosedRange<Int>) -> String {
            (0..<Int.random(in: range, using: &generator)).map { _ in String(Int.random(in: 0...9, using: &generator)) }
                .joined()
        }
        let sign = ["", "-", "+"].randomElement(using: &generator)!
        let fraction = Bool.random(using: &generator) ? "." + digits(1...8) : ""
        let exponent = Bool.random(using: &generator) ? "e\(Int.random(in: -12...12, using: &generator))" : ""
        return sign + digits(1...8) + fraction + exponent
    }
}

@Suite(.timeLimit(.minutes(5))) struct ValuesTextTests {
    private func check(_ type: AttributeType, transforms: [Transform] = [], _ cases: [(String, StoredValue)]) throws {
        let converter = try ValueConverter.compiled(Attribute(name: "value", type: type, transforms: transforms))
        for (json, expected) in cases {
            #expect(try converter.stored(json) == expected, "\(type) \(transforms) \(json)")
        }
    }

    @Test func `strings accept scalars as they are written and no other values`() throws {
        try check(
            .string,
            [
                ("\"héllo\"", .text("héllo")), ("\"\"", .text("")), ("\"a\\n\\u0000b\"", .text("a\n\0b")),
                ("1.50", .text("1.50")), ("-0", .text("-0")), ("1E5", .text("1E5")), ("true", .text("true")),
                ("false", .text("false")), ("null", .null), ("{}", .inconvertible), ("[\"a\"]", .inconvertible),
            ])
    }

    @Test func `strings that need no change are not copied`() throws {
        let plain = try ValueConverter.compiled(Attribute(name: "value", type: .string))
        #expect(try plain.storesInPlace("\"hello\""))
        #expect(try plain.storesInPlace("12"))
        #expect(try !plain.storesInPlace("\"hel\\u006co\""))
        let trimmed = try ValueConverter.compiled(
            Attribute(name: "value", type: .string, transforms: [.trim, .lowercase]))
        #expect(try trimmed.storesInPlace("\"  hello \""))
        #expect(try trimmed.storesInPlace("\"   \""))
        #expect(try !trimmed.storesInPlace("\"  Hello \""))
    }

    @Test func `transforms are applied to strings in every type`() throws {
        try check(
            .string, transforms: [.trim],
            [
                ("\" \\t\\n a b\\r\\n\"", .text("a b")), ("\"\"", .text("")), ("\"   \"", .text("")),
                ("\"\u{A0}\u{2003}\u{3000}\u{1680}x\u{85}\u{2028}\u{205F}\u{202F}\"", .text("x")),
                ("\" é \"", .text("é")), ("\"\u{200B}x\"", .text("\u{200B}x")), ("\"\u{3000}\"", .text("")),
                ("\"é\"", .text("é")),
            ])
        try check(
            .string, transforms: [.uppercase],
            [("\"abc-XYZ9{@`\"", .text("ABC-XYZ9{@`")), ("\"straße\"", .text("STRASSE")), ("\" a \"", .text(" A "))])
        try check(
            .string, transforms: [.lowercase, .trim],
            [("\" ABC[]^_ \"", .text("abc[]^_")), ("\" ÀÉÎ \"", .text("àéî"))])
        try check(.string, transforms: [.uppercase, .lowercase], [("\"ß\"", .text("ss")), ("\"aB\"", .text("ab"))])
        try check(.integer32, transforms: [.trim], [("\" 12 \"", .integer(12)), ("\" 1 2 \"", .inconvertible)])
        try check(.uuid, transforms: [.trim], [("\" nonsense \"", .inconvertible)])
        try check(.transformable, transforms: [.trim, .uppercase], [("\" a \"", .text("\" a \""))])
    }

    @Test func `URIs have no white space and no control characters`() throws {
        try check(
            .uri,
            [
                ("\"https://example.org/ü?q=1#x\"", .text("https://example.org/ü?q=1#x")),
                ("\"urn:a\"", .text("urn:a")),
                ("\"\"", .inconvertible), ("\"a b\"", .inconvertible), ("\" a\"", .inconvertible),
                ("\"a\\n\"", .inconvertible), ("\"a\u{7F}\"", .inconvertible), ("\"a\u{A0}\"", .inconvertible),
                ("\"a\u{9B}\"", .inconvertible), ("\"\u{2003}a\"", .inconvertible), ("12", .inconvertible),
                ("true", .inconvertible), ("{}", .inconvertible), ("[]", .inconvertible),
            ])
    }

    @Test func `UUIDs are stored in upper case`() throws {
        let upper = "E621E1F8-C36C-495A-93FC-0C247A3E6E5F"
        try check(
            .uuid,
            [
                ("\"\(upper)\"", .text(upper)), ("\"\(upper.lowercased())\"", .text(upper)),
                ("\"E621E1F8-c36c-495A-93fc-0C247A3E6E5F\"", .text(upper)),
                ("\"E621E1F8C36C495A93FC0C247A3E6E5F\"", .inconvertible), ("\"{\(upper)}\"", .inconvertible),
                ("\"E621E1F8-C36C-495A-93FC-0C247A3E6E5\"", .inconvertible),
                ("\"G621E1F8-C36C-495A-93FC-0C247A3E6E5F\"", .inconvertible),
                ("\"E621E1F8-C36C-495A-93FC_0C247A3E6E5F\"", .inconvertible),
                ("\"E621E1F8-C36C-495A-93FC-0C247A3E6E5\u{1A}\"".replacing("\u{1A}", with: "\\u001a"), .inconvertible),
                ("\"E621E1F-8C36C-495A-93FC-0C247A3E6E5F\"", .inconvertible), ("\"\"", .inconvertible),
                ("5", .inconvertible), ("{}", .inconvertible),
            ])
        #expect(try ValueConverter.compiled(Attribute(name: "id", type: .uuid)).storesInPlace("\"\(upper)\""))
    }

    @Test func `a UUID has hexadecimal digits and dashes, each at its place`() throws {
        let converter = try ValueConverter.compiled(Attribute(name: "id", type: .uuid))
        let digits = Array("0123456789ABCDEFabcdef".utf8)
        let uuid = Array("E621E1F8-c36c-495A-93fc-0C247A3E6E5F".utf8)
        for place in uuid.indices {
            for byte in 0x20...0x7E as ClosedRange<UInt8> where byte != UInt8(ascii: "\"") && byte != UInt8(ascii: "\\")
            {
                var text = uuid
                text[place] = byte
                let isOne = uuid[place] == UInt8(ascii: "-") ? byte == uuid[place] : digits.contains(byte)
                let string = String(decoding: text, as: UTF8.self)
                #expect(
                    try converter.stored("\"\(string)\"") == (isOne ? .text(string.uppercased()) : .inconvertible),
                    "\(string)")
            }
        }
    }

    @Test func `base64 is strict, except for its padding`() throws {
        try check(
            .binary,
            [
                ("\"\"", .blob([])), ("\"AA==\"", .blob([0])), ("\"AA\"", .blob([0])), ("\"AAE=\"", .blob([0, 1])),
                ("\"AAE\"", .blob([0, 1])), ("\"AAEC\"", .blob([0, 1, 2])), ("\"+/+/\"", .blob([0xFB, 0xFF, 0xBF])),
                ("\"A\"", .inconvertible), ("\"A===\"", .inconvertible), ("\"AA=\"", .inconvertible),
                ("\"AAE==\"", .inconvertible), ("\"AAEC=\"", .inconvertible), ("\"AAEC==\"", .inconvertible),
                ("\"=\"", .inconvertible), ("\"==\"", .inconvertible), ("\"====\"", .inconvertible),
                ("\"AB==\"", .inconvertible), ("\"AAF=\"", .inconvertible), ("\"AA==AA==\"", .inconvertible),
                ("\"AA EC\"", .inconvertible), ("\"AAEC\\n\"", .inconvertible), ("\"-_-_\"", .inconvertible),
                ("\"AÄA\"", .inconvertible), ("12", .inconvertible), ("true", .inconvertible), ("[]", .inconvertible),
            ])
    }

    @Test func `random bytes survive base64`() throws {
        var generator = SeededGenerator(for: "base64")
        let converter = try ValueConverter.compiled(Attribute(name: "data", type: .binary))
        for count in 0..<300 {
            let bytes = (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
            let text = Data(bytes).base64EncodedString()
            #expect(try converter.stored("\"\(text)\"") == .blob(bytes))
            #expect(try converter.stored("\"\(text.replacing("=", with: ""))\"") == .blob(bytes))
        }
    }

    @Test func `any JSON is transformable, and compact`() throws {
        try check(
            .transformable,
            [
                ("{\"a\":[1,2.50,null,true]}", .text("{\"a\":[1,2.50,null,true]}")),
                (
                    "{ \"a b\" : [ 1 ,\t2 ],\r\n \"c\\\" d\" : \" x \\\\\" }",
                    .text("{\"a b\":[1,2],\"c\\\" d\":\" x \\\\\"}")
                ),
                ("[ ]", .text("[]")), ("12.50", .text("12.50")), ("true", .text("true")),
                ("\"a b\"", .text("\"a b\"")), ("\"\"", .text("\"\"")),
                ("\"a\\u0041\\\"\\n\\u0001\"", .text("\"aA\\\"\\n\\u0001\"")), ("null", .null),
            ])
        let converter = try ValueConverter.compiled(Attribute(name: "extra", type: .transformable))
        #expect(try converter.storesInPlace("{\"a\":\" [ \"}"))
        #expect(try converter.storesInPlace("\"a b\""))
        #expect(try !converter.storesInPlace("[1, 2]"))
    }
}

@Suite(.timeLimit(.minutes(5))) struct ValuesLimitTests {
    private func check(
        _ type: AttributeType, _ constraints: ValueConstraints, transforms: [Transform] = [],
        _ cases: [(String, StoredValue)]
    ) throws {
        let converter = try ValueConverter.compiled(
            Attribute(name: "value", type: type, constraints: constraints, transforms: transforms))
        for (json, expected) in cases { #expect(try converter.stored(json) == expected, "\(type) \(json)") }
    }

    private func range(_ minimum: String?, _ maximum: String?) -> ValueConstraints {
        ValueConstraints(minimum: minimum.map { JSONFragment($0) }, maximum: maximum.map { JSONFragment($0) })
    }

    @Test func `min and max are exact for every number`() throws {
        try check(
            .integer64, range("-1", "9223372036854775806"),
            [
                ("-1", .integer(-1)), ("-2", .notAllowed), ("9223372036854775807", .notAllowed),
                ("9223372036854775806", .integer(.max - 1)), ("\"-2\"", .notAllowed), ("\"x\"", .inconvertible),
                ("null", .null),
            ])
        try check(
            .decimal, range("0", "99999999999999999999.99"),
            [
                ("0", .text("0")), ("-0.0", .text("0.0")), ("-0.00000000000000000000000001", .notAllowed),
                ("99999999999999999999.990", .text("99999999999999999999.990")),
                ("99999999999999999999.9900000001", .notAllowed), ("1e20", .notAllowed),
            ])
        try check(.double, range("0.1", nil), [("0.1", .real(0.1)), ("0.09999999999999999", .notAllowed)])
        try check(.float, range(nil, "\"2.5\""), [("2.5", .real(2.5)), ("2.6", .notAllowed)])
    }

    @Test func `dates are checked against their bounds before they are rounded`() throws {
        let constraints = range("\"2011-01-01\"", "1325376000.5")
        try check(
            .date, constraints,
            [
                ("\"2010-12-31T23:59:59.999999Z\"", .notAllowed),
                ("\"2011-01-01T00:00:00Z\"", .text("2011-01-01T00:00:00.000Z")),
                ("\"2012-01-01T00:00:00.5Z\"", .text("2012-01-01T00:00:00.500Z")),
                ("\"2012-01-01T00:00:00.500000001Z\"", .notAllowed),
            ])
    }

    @Test func `lengths count Unicode scalars after the transforms`() throws {
        try check(
            .string, ValueConstraints(minimumLength: 2, maximumLength: 3), transforms: [.trim],
            [
                ("\"a\"", .notAllowed), ("\"  a  \"", .notAllowed), ("\"äö\"", .text("äö")),
                ("\"👨‍👩\"", .text("👨‍👩")), ("\"abcd\"", .notAllowed), ("\"abc \"", .text("abc")),
            ])
        try check(.string, ValueConstraints(maximumLength: 0), [("\"\"", .text("")), ("\"a\"", .notAllowed)])
    }

    @Test func `a pattern matches anywhere`() throws {
        try check(
            .string, ValueConstraints(pattern: ".+@.+"),
            [("\"a@b\"", .text("a@b")), ("\"@b\"", .notAllowed), ("\"\"", .notAllowed), ("\"ü@ü x\"", .text("ü@ü x"))])
        try check(
            .string, ValueConstraints(pattern: "^[A-Z]{2}$"), transforms: [.uppercase],
            [("\"de\"", .text("DE")), ("\"deu\"", .notAllowed)])
    }

    @Test func `an enum compares converted values`() throws {
        func list(_ values: String...) -> ValueConstraints {
            ValueConstraints(allowed: values.map { JSONFragment($0) })
        }
        try check(.string, list("\"a\"", "\"b\""), [("\"a\"", .text("a")), ("\"c\"", .notAllowed), ("null", .null)])
        try check(.integer32, list("1", "\"2\""), [("2", .integer(2)), ("1.0", .integer(1)), ("3", .notAllowed)])
        try check(.decimal, list("1.5"), [("1.50", .text("1.50")), ("1.51", .notAllowed)])
        try check(
            .date, list("\"2011-12-22\""),
            [("1324512000", .text("2011-12-22T00:00:00.000Z")), ("1324512001", .notAllowed)])
        try check(.transformable, list("[1, 2]"), [("[ 1,2 ]", .text("[1,2]")), ("[1]", .notAllowed)])
        try check(.binary, list("\"AA==\"", "null"), [("\"AA\"", .blob([0])), ("\"AQ\"", .notAllowed)])
        try check(.boolean, list("true"), [("\"yes\"", .integer(1)), ("false", .notAllowed)])
    }

    @Test func `violations state the limit`() throws {
        let name = try ValueConverter.compiled(
            Attribute(name: "name", type: .string, constraints: ValueConstraints(maximumLength: 3)))
        #expect(try name.refusal(of: "\"abcd\"") == "\"abcd\" has 4 characters; attribute \"name\" wants at most 3")
        let age = try ValueConverter.compiled(Attribute(name: "age", type: .integer16, constraints: range("0", "150")))
        #expect(try age.refusal(of: "-1") == "-1 is outside of the \"min\" and \"max\" of attribute \"age\"")
    }

    @Test func `the default is converted once and owned`() throws {
        func stored(_ type: AttributeType, _ json: String) throws -> StoredValue? {
            let converter = try ValueConverter.compiled(
                Attribute(name: "value", type: type, defaultValue: JSONFragment(json)))
            return converter.defaultCell.map { StoredValue($0.cell) }
        }
        #expect(try stored(.string, "\"é\\n\"") == .text("é\n"))
        #expect(try stored(.string, "\"\"") == .text(""))
        #expect(try stored(.date, "0") == .text("1970-01-01T00:00:00.000Z"))
        #expect(try stored(.binary, "\"AAEC\"") == .blob([0, 1, 2]))
        #expect(try stored(.integer32, "\"5\"") == .integer(5))
        #expect(try stored(.double, "5") == .real(5))
        #expect(try stored(.integer32, "null") == nil)
        #expect(try ValueConverter.compiled(Attribute(name: "value", type: .string)).defaultCell == nil)
        let empty = try ValueConverter.compiled(
            Attribute(name: "value", type: .binary, defaultValue: JSONFragment("\"\"")))
        #expect(empty.defaultCell?.cell.bytes.baseAddress != nil)
    }

    @Test func `all faults of an attribute are reported at once, with their positions`() throws {
        let place = ModelPlace(pointer: "/entities/A/attributes/b", line: 4, column: 2)
        func faults(_ attribute: Attribute) -> [String] {
            var attribute = attribute
            attribute.place = place
            do {
                _ = try ValueConverter.compiled(attribute)
                return []
            } catch {
                #expect(error.faults.allSatisfy { $0.place == place })
                return error.faults.map(\.message)
            }
        }
        func integer(_ constraints: ValueConstraints, defaultValue: String? = nil) -> [String] {
            faults(
                Attribute(
                    name: "b", type: .integer16, defaultValue: defaultValue.map { JSONFragment($0) },
                    constraints: constraints))
        }
        let many = integer(
            ValueConstraints(minimum: JSONFragment("0.5"), allowed: [JSONFragment("\"x\"")]), defaultValue: "70000")
        #expect(many.count == 3)
        #expect(many.first?.contains("\"min\"") == true)
        #expect(integer(range("2", "1")).count == 1)
        #expect(integer(range("null", nil)).count == 1)
        #expect(integer(range("nonsense", nil)).count == 1)
        #expect(integer(ValueConstraints(maximumLength: 3)).count == 1)
        #expect(integer(ValueConstraints(pattern: "a")).count == 1)
        #expect(integer(range("0", "1"), defaultValue: "2").count == 1)
        #expect(faults(Attribute(name: "b", type: .decimal, constraints: range("1.01", "1"))).count == 1)
        #expect(faults(Attribute(name: "b", type: .date, constraints: range("\"x\"", nil))).count == 1)
        #expect(faults(Attribute(name: "b", type: .string, constraints: range("1", nil))).count == 1)
        #expect(faults(Attribute(name: "b", type: .string, constraints: ValueConstraints(pattern: "(a"))).count == 1)
        #expect(
            faults(
                Attribute(name: "b", type: .string, constraints: ValueConstraints(minimumLength: 3, maximumLength: 2))
            )
            .count == 1)
        #expect(faults(Attribute(name: "b", type: .date, timeZone: "Nowhere/Town")).count == 1)
        #expect(faults(Attribute(name: "b", type: .date, dateFormats: ["yyyy", "b 'x", "jjmm", ""])).count == 3)
        #expect(faults(Attribute(name: "b", type: .date, timeZone: "Europe/Berlin")).isEmpty)
    }
}
