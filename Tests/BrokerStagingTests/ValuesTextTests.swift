import BrokerModel
import Foundation
import Testing
import TestSupport

@testable import BrokerStaging

@Suite(.timeLimit(.minutes(5))) struct ValuesTextTests {
    private func check(
        _ type: AttributeType, transforms: [Transform] = [], _ cases: [(String, StoredValue)]
    ) throws {
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
