import BrokerModel
import Testing

@testable import BrokerStaging

@Suite(.timeLimit(.minutes(5))) struct ValuesLimitTests {
    private func check(
        _ type: AttributeType, _ constraints: ValueConstraints, transforms: [Transform] = [],
        _ cases: [(String, StoredValue)]
    ) throws {
        let converter = try ValueConverter.compiled(
            Attribute(name: "value", type: type, constraints: constraints, transforms: transforms))
        for (json, expected) in cases {
            #expect(try converter.stored(json) == expected, "\(type) \(json)")
        }
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
        #expect(
            try name.refusal(of: "\"abcd\"") == "\"abcd\" has 4 characters; attribute \"name\" wants at most 3")
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
