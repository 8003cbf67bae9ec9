import BrokerWire
import Foundation
import TestSupport
import Testing

@testable import Broker

/// The JSON text of `Encodable` values.
@Suite(.timeLimit(.minutes(5))) struct EncodingTests {
    // MARK: - Dates

    /// Seconds since 1970 with a fraction of so many digits, without zeros at its end.
    private func text(_ seconds: Int, _ units: Int, _ digits: Int) -> String {
        var fraction =
            String(repeating: "0", count: digits - min(digits, String(units).count)) + (digits == 0 ? "" : "\(units)")
        while fraction.last == "0" { fraction.removeLast() }
        guard seconds < 0, !fraction.isEmpty else { return fraction.isEmpty ? "\(seconds)" : "\(seconds).\(fraction)" }
        // The fraction counts from the second before.
        let scale = [0: 1, 3: 1_000, 6: 1_000_000][digits]!
        var complement = String(String(scale + scale - units).dropFirst())
        while complement.last == "0" { complement.removeLast() }
        return "-\(-(seconds + 1)).\(complement)"
    }

    /// - Parameter digits: of the fraction of a second.
    @Test(arguments: [0, 3, 6])
    func `100,000 dates of a precision have its digits, however they were made, and come back`(digits: Int) throws {
        var generator = SeededGenerator(for: "dates of \(digits) digits")
        let scale = [0: 1, 3: 1_000, 6: 1_000_000][digits]!
        // Milliseconds of the years 1 to 9999, microseconds of 1864 to 2137.
        let range = digits == 6 ? -3_316_000_000..<5_273_000_000 : -62_135_596_800..<253_402_300_800
        var wrong: [String] = []
        for _ in 0..<100_000 {
            let seconds = Int.random(in: range, using: &generator)
            let units = digits == 0 ? 0 : Int.random(in: 0..<scale, using: &generator)
            let expected = text(seconds, units, digits)
            let sinceReference = Double(seconds - 978_307_200) + Double(units) / Double(scale)
            let date =
                switch Int.random(in: 0..<3, using: &generator) {
                case 0: Date(timeIntervalSinceReferenceDate: sinceReference)
                case 1: Date(timeIntervalSince1970: Double(seconds) + Double(units) / Double(scale))
                default: try RawJSON(expected).decode(Date.self)
                }
            if try RawJSON(value: date).description != expected { wrong.append(expected) }
        }
        #expect(wrong.isEmpty, "\(wrong.count), such as \(wrong.prefix(3))")
    }

    @Test func `a date that was fetched as text has the digits of that text`() throws {
        var generator = SeededGenerator()
        for digits in [3, 6] {
            for _ in 0..<2_000 {
                let units = Int.random(in: 0..<(digits == 3 ? 1_000 : 1_000_000), using: &generator)
                let fraction = String(String((digits == 3 ? 1_000 : 1_000_000) + units).dropFirst())
                let date = try RawJSON(#""2026-11-28T14:00:07.\#(fraction)Z""#).decode(Date.self)
                #expect(try RawJSON(value: date).description == text(1_795_874_407, units, digits))
            }
        }
    }

    @Test(arguments: [
        (Double.zero, "0"), (-0.5, "-0.5"), (-1, "-1"), (1e-7, "0"), (0.000_000_6, "0.000001"),
        (-0.000_001, "-0.000001"),
        (-0.000_000_1, "0"), (1_322_520_171.001_999_9, "1322520171.002"), (-62_135_596_800, "-62135596800"),
        (253_402_300_799.999, "253402300799.999"), (1e30, "1e+30"),
    ])
    func `a date is rounded to the nearest digit that it has`(seconds: Double, text: String) throws {
        #expect(try RawJSON(value: Date(timeIntervalSince1970: seconds)).description == text)
    }

    @Test func `a date that is no time is an error`() {
        for seconds in [Double.nan, .infinity] {
            let error = #expect(throws: BrokerError.self) {
                try RawJSON(value: Date(timeIntervalSinceReferenceDate: seconds))
            }
            #expect(error?.code == .notEncodable)
        }
    }

    // MARK: - Numbers

    @Test func `a double and a float have the fewest digits that are read as the same number`() throws {
        var generator = SeededGenerator()
        for _ in 0..<20_000 {
            let double = Double(bitPattern: generator.next())
            let float = Float(bitPattern: UInt32.random(in: .min ... .max, using: &generator))
            if double.isFinite { #expect(try RawJSON(value: double).decode(Double.self) == double) }
            if float.isFinite { #expect(try RawJSON(value: float).decode(Float.self) == float) }
        }
        for (value, text) in [(0.1, "0.1"), (19.99, "19.99"), (2, "2"), (-0.0, "-0"), (1e22, "1e+22")] {
            #expect(try RawJSON(value: value).description == text)
        }
        #expect(try RawJSON(value: Float(0.1)).description == "0.1")
        #expect(try RawJSON(value: ["a": Int128.max]).description == #"{"a":170141183460469231731687303715884105727}"#)
    }

    @Test func `a raw text inside of a value keeps all its digits`() throws {
        let text = "1234567890123456789012345678901234567890.50"
        #expect(try RawJSON(encoding: ["a": [RawJSON(text)]]).description == #"{"a":[\#(text)]}"#)
        let error = #expect(throws: BrokerError.self) { try RawJSON(encoding: ["a": RawJSON("1 2")]) }
        #expect(error?.code == .notEncodable)
    }

    // MARK: - Order

    private struct Tags: Encodable {
        struct Tag: Encodable, Hashable {
            var id: Int
            var name: String
        }

        var names: Set<String>
        var tags: Set<Tag>?
        @Nullable var numbers: Set<Int>?
        var byTag: [Tag: Int] = [:]
        var list = [3, 1, 2]
    }

    @Test func `the elements of a set, and pairs of values, are in the order of their bytes`() throws {
        let names = (100..<200).map { "n\($0)" }
        let tags = Tags(
            names: Set(names), tags: Set((100..<150).map { .init(id: $0, name: "") }), numbers: Set(10...60),
            byTag: Dictionary(uniqueKeysWithValues: (100..<150).map { (.init(id: $0, name: ""), -$0) }))
        func array(_ elements: [String]) -> String { "[" + elements.joined(separator: ",") + "]" }
        let objects = (100..<150).map { #"{"id":\#($0),"name":""}"# }
        let pairs = objects.enumerated().map { "\($0.element),\(-100 - $0.offset)" }
        let texts = names.map { "\"\($0)\"" }
        var expected = #"{"byTag":\#(array(pairs)),"list":[3,1,2],"names":\#(array(texts)),"#
        expected += #""numbers":\#(array((10...60).map(String.init))),"tags":\#(array(objects))}"#
        #expect(try RawJSON(encoding: tags).description == expected)
        #expect(try RawJSON(value: Set(names)).description == array(texts))
    }

    // MARK: - As Foundation's encoder

    private class Animal: Encodable {
        var name = "a\"ü\n"
        var legs: Int? = 4
    }

    private final class Dog: Animal {
        enum Size: Encodable { case small, large(Double, label: String) }

        var sizes: [Size] = [.small, .large(1.5, label: "x")]
        var page = URL(string: "https://a.b/c?d=1")
        var data = Data([1, 2, 3])
        var map = [1: ["x": Decimal(string: "12.50")]]
        var pairs: [[Int?]] = [[], [1, nil]]
        var bytes: [UInt8] = [7]
        var flag = true
        var wide = UInt64.max

        private enum Keys: String, CodingKey { case sizes, page, data, map, pairs, bytes, flag, wide, nested }

        override func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: Keys.self)
            try super.encode(to: container.superEncoder())
            var nested = container.nestedUnkeyedContainer(forKey: .nested)
            try nested.encode(pairs)
            try container.encode(sizes, forKey: .sizes)
            var inner = nested.nestedContainer(keyedBy: Keys.self)
            try inner.encode(page, forKey: .page)
            try inner.encode(data, forKey: .data)
            try nested.encodeNil()
            try container.encode(map, forKey: .map)
            try container.encode(bytes, forKey: .bytes)
            try container.encode(flag, forKey: .flag)
            try container.encode(wide, forKey: .wide)
            try super.encode(to: nested.superEncoder())
        }
    }

    @Test func `values of every shape are written as Foundation's encoder writes them`() throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        let dog = try RawJSON(encoding: [Dog()])
        #expect(dog.description == String(decoding: try encoder.encode([Dog()]), as: UTF8.self))
        // The outer array, the dog, its list, the pairs and one of them.
        #expect(dog.knownDepth == 5)
        struct Empty: Encodable { func encode(to encoder: any Encoder) {} }
        #expect(try RawJSON(encoding: [Empty()]).description == "[{}]")
        #expect(throws: BrokerError.self) { try RawJSON(encoding: Empty()) }
    }
}

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

    @Test func `integers of 128 bits are read as members and as elements`() throws {
        struct Wide: Codable, Equatable {
            var signed: Int128
            var unsigned: UInt128
            var absent: Int128?
            var elements: [UInt128]
        }
        let wide = Wide(signed: .min, unsigned: .max, absent: nil, elements: [.max, 0])
        #expect(try RawJSON(value: wide).decode(Wide.self) == wide)
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

// Not @testable: what is used here is what users have.
import Broker

@Suite(.timeLimit(.minutes(5))) struct ValueTests {
    private struct Employee: Codable, Equatable {
        var id: Int
        var hiredAt: Date
    }

    private struct Seat: Codable, Equatable {
        var hall: String
        var number: Int
    }

    @Test func `values are encoded, bytes are JSON already, and a string is a value`() throws {
        let employee = Employee(id: 1, hiredAt: Date(timeIntervalSince1970: 1.25))
        let json = try RawJSON(encoding: employee)
        #expect(try json.decode(Employee.self) == employee)
        #expect(try json.decode([String: Double].self) == ["id": 1, "hiredAt": 1.25])
        let text = #"{"id":1}"#
        let bytes = Array(text.utf8)
        let taken: [any Encodable] = [bytes, Data(bytes)]
        for json in taken { #expect(try RawJSON(encoding: json).description == text) }
        #expect(try RawJSON(encoding: text).description == #""{\"id\":1}""#)
        do {
            _ = try RawJSON(encoding: Double.nan)
            Issue.record("it was encoded")
        } catch {
            #expect(error.code == .notEncodable)
        }
    }

    @Test func `an empty array of records is an empty array, and empty bytes are no value`() throws {
        #expect(try RawJSON(encoding: [Employee]()).description == "[]")
        #expect(try RawJSON(encoding: [Employee](), nulls: .written).description == "[]")
        #expect(try RawJSON(encoding: [UInt8]()).description.isEmpty)
    }

    @Test func `the text of an error with a fault has the code of the error, and the path of the fault`() {
        let fault = BrokerError.Fault(code: .malformedJSON, message: "No value.", path: "/json")
        #expect("\(BrokerError.invalidJSON(fault))" == "invalidJSON at /json: No value.")
    }

    @Test func `the same values give the same bytes, so that a job sent again is known as the same`() throws {
        let employee = Dictionary(uniqueKeysWithValues: (0..<50).map { ("key \($0)", $0) })
        let text = try RawJSON(encoding: [employee]).description
        let keys = employee.keys.sorted().map { #""\#($0)":\#(employee[$0] ?? -1)"# }
        #expect(text == "[{" + keys.joined(separator: ",") + "}]")
    }

    @Test func `keys are read as what they are, entity by entity`() throws {
        let completion = Completion(
            id: "a", sequence: 1,
            keys: .init(
                #"""
                {"Employee":{"inserted":[1,9223372036854775807],"updated":[],"deleted":[2]},
                 "Seat":{"inserted":[{"hall":"A","number":7}],"updated":[],"deleted":[]}}
                """#))
        #expect(try completion.keys(of: "Employee", as: Int64.self).inserted == [1, .max])
        #expect(try completion.keys(of: "Employee", as: Int64.self).deleted == [2])
        #expect(try completion.keys(of: "Seat", as: Seat.self).inserted == [Seat(hall: "A", number: 7)])
        #expect(try completion.keys(of: "Nobody", as: Int.self) == .init())
        #expect(throws: DecodingError.self) { try completion.keys(of: "Seat", as: Int.self) }
    }

    @Test func `every code of the protocol has a name`() {
        #expect(BrokerError.Code(rawValue: "idConflict") == .idConflict)
        #expect("\(BrokerError.Code.storeFull)" == "storeFull")
    }
}

/// Members that are nil, and are written as null by an option of the call.
@Suite(.timeLimit(.minutes(5))) struct NullsTests {
    private struct Address: Codable {
        var city: String?
        var floor: Int?
    }

    private struct Person: Codable {
        var id: Int
        var name: String?
        var age: Int8?
        var isActive: Bool?
        var score: Double?
        var born: Date?
        var salary: Decimal?
        var home: Address?
        var places: [Address] = []
        var tags: [String: Int?] = [:]
        @Nullable var phone: String?
    }

    @Test func `every member that is nil is null, in nested values, too`() throws {
        let person = Person(id: 1, home: Address(city: "Paris"), places: [Address()], phone: nil)
        #expect(
            try RawJSON(encoding: person, nulls: .written).description == #"{"age":null,"born":null,"#
                + #""home":{"city":"Paris","floor":null},"id":1,"isActive":null,"name":null,"phone":null,"#
                + #""places":[{"city":null,"floor":null}],"salary":null,"score":null,"tags":{}}"#)
        #expect(
            try RawJSON(encoding: person).description
                == #"{"home":{"city":"Paris"},"id":1,"phone":null,"places":[{}],"tags":{}}"#)
    }

    @Test func `values that are not nil are encoded as without the option`() throws {
        let person = Person(
            id: 1, name: "Ada", age: 3, isActive: true, score: 1.5, born: Date(timeIntervalSince1970: 1.25),
            salary: Decimal(string: "12500.50"), home: Address(city: "a", floor: 2),
            places: [Address(city: "b", floor: 1)],
            tags: ["a": 1], phone: "7")
        #expect(try RawJSON(encoding: [person], nulls: .written) == RawJSON(encoding: [person]))
    }
}

/// Relationships that are keys or objects.
@Suite(.timeLimit(.minutes(5))) struct LinkTests {
    private struct Seat: Codable, Hashable {
        struct Key: Codable, Hashable {
            var hall: String
            var number: Int
        }

        var hall: String
        var number: Int
        var isFree: Bool
    }

    private struct Department: Codable, Hashable {
        var id: Int
        var name: String?
    }

    private struct Employee: Codable, Hashable {
        var id: Int
        var department: Link<Int, Department>?
        var seat: Link<Seat.Key, Seat>?
        var colleagues: [Link<String, Employee>]?
    }

    private static let employees: [(Employee, String)] = [
        (Employee(id: 1), #"{"id":1}"#),
        (Employee(id: 1, department: .key(7)), #"{"department":7,"id":1}"#),
        (
            Employee(id: 1, department: .object(Department(id: 7, name: "R&D"))),
            #"{"department":{"id":7,"name":"R&D"},"id":1}"#
        ),
        (
            Employee(id: 1, seat: .key(.init(hall: "A", number: 3))), #"{"id":1,"seat":{"hall":"A","number":3}}"#
        ),
        (
            Employee(id: 1, seat: .object(Seat(hall: "A", number: 3, isFree: true))),
            #"{"id":1,"seat":{"hall":"A","isFree":true,"number":3}}"#
        ),
        (
            Employee(id: 1, colleagues: [.key("a"), .object(Employee(id: 2, department: .key(7)))]),
            #"{"colleagues":["a",{"department":7,"id":2}],"id":1}"#
        ),
    ]

    @Test func `a link is a key or an object, both ways, and with another decoder`() throws {
        for (employee, text) in Self.employees {
            #expect(try RawJSON(encoding: employee).description == text)
            #expect(try RawJSON(text).decode(Employee.self) == employee)
            #expect(try JSONDecoder().decode(Employee.self, from: Data(text.utf8)) == employee)
        }
        #expect(try RawJSON(#"{"id":1,"department":null}"#).decode(Employee.self) == Employee(id: 1))
    }

    @Test func `members of an object that are nil are written as null where that is wanted`() throws {
        let employee = Employee(id: 1, department: .object(Department(id: 7)))
        #expect(
            try RawJSON(encoding: employee, nulls: .written).description
                == #"{"colleagues":null,"department":{"id":7,"name":null},"id":1,"seat":null}"#)
    }

    @Test func `what is neither is the object's fault, or the key's`() {
        let object = #expect(throws: DecodingError.self) {
            try RawJSON(#"{"id":1,"department":{"name":7}}"#).decode(Employee.self)
        }
        let key = #expect(throws: DecodingError.self) {
            try RawJSON(#"{"id":1,"department":"x"}"#).decode(Employee.self)
        }
        #expect("\(String(describing: object))".contains("id"))
        #expect("\(String(describing: key))".contains("Int"))
    }

    @Test func `a link is a key or an object, not both`() {
        let key = Link<Int, Department>.key(7)
        #expect(key.key == 7 && key.object == nil)
        let object = Link<Int, Department>.object(Department(id: 7))
        #expect(object.key == nil && object.object?.id == 7)
    }
}
