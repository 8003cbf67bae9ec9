import BrokerJSON
import Foundation
import Testing
import TestSupport

/// Random values against another reader and writer of JSON: Foundation's.
@Suite(.timeLimit(.minutes(5))) struct JSONRoundTripTests {
    private indirect enum Value: Equatable {
        case null
        case bool(Bool)
        case integer(Int64)
        case double(Double)
        case string(String)
        case array([Value])
        case object([String: Value])
    }

    @Test func `random values come back from our parser, through our writer and through Foundation's`() throws {
        var generator = SeededGenerator(for: "values there and back")
        for _ in 0..<400 {
            let value = Self.random(&generator, depth: 5)
            var writer = JSONWriter()
            Self.write(value, to: &writer)
            #expect(try withRoot(of: writer.bytes, Self.read) == value)
            let object = try JSONSerialization.jsonObject(with: Data(writer.bytes), options: .fragmentsAllowed)
            let theirs = try JSONSerialization.data(
                withJSONObject: object, options: [.fragmentsAllowed, .prettyPrinted])
            #expect(try withRoot(of: theirs, Self.read) == value)
        }
    }

    @Test func `a damaged text is accepted only where Foundation accepts it`() throws {
        var generator = SeededGenerator(for: "damaged texts")
        var accepted = 0
        for _ in 0..<2_000 {
            var writer = JSONWriter()
            Self.write(Self.random(&generator, depth: 3), to: &writer)
            var bytes = writer.bytes
            let place = Int.random(in: bytes.indices, using: &generator)
            // No exponents: Foundation refuses numbers beyond a double, which the grammar allows.
            bytes[place] = Array("{}[],:\"\\0-. tu\u{1}\u{80}".utf8).randomElement(using: &generator)!
            guard refusal(of: bytes) == nil else { continue }
            accepted += 1
            #expect(throws: Never.self, "\(String(decoding: bytes, as: UTF8.self))") {
                _ = try JSONSerialization.jsonObject(with: Data(bytes), options: .fragmentsAllowed)
            }
        }
        #expect(accepted > 0)
    }

    // MARK: - Values

    private static func random(_ generator: inout SeededGenerator, depth: Int) -> Value {
        switch Int.random(in: 0..<(depth > 0 ? 9 : 6), using: &generator) {
        case 0: return .null
        case 1: return .bool(.random(using: &generator))
        case 2: return .integer(Int64.random(in: .min ... .max, using: &generator))
        case 3: return .integer(Int64.random(in: -100...100, using: &generator))
        // Halves are no integers in any writer, and exact in every reader.
        case 4: return .double(Double(Int32.random(in: .min ... .max, using: &generator)) + 0.5)
        case 5: return .string(randomString(&generator))
        case 6: return .object([:])
        case 7:
            return .array(
                (0..<Int.random(in: 0...4, using: &generator)).map { _ in random(&generator, depth: depth - 1) })
        default:
            let members = (0..<Int.random(in: 0...4, using: &generator)).map { _ in
                (randomString(&generator), random(&generator, depth: depth - 1))
            }
            return .object(Dictionary(members, uniquingKeysWith: { $1 }))
        }
    }

    private static func randomString(_ generator: inout SeededGenerator) -> String {
        let scalars = (0..<Int.random(in: 0...20, using: &generator)).map { _ -> UnicodeScalar in
            let ranges: [ClosedRange<UInt32>] = [
                // Without U+FEFF, which Foundation takes for a byte order mark also where a string begins.
                0...0x1F, 0x20...0x7E, 0xA0...0xD7FF, 0xE000...0xFEFE, 0xFF00...0xFFFD, 0x1_0000...0x10_FFFF,
            ]
            // Precomposed and decomposed keys would be one key in a Swift dictionary, so no combining marks.
            let value = UInt32.random(in: ranges.randomElement(using: &generator)!, using: &generator)
            return UnicodeScalar(value).flatMap { $0.properties.canonicalCombiningClass == .notReordered ? $0 : nil }
                ?? "x"
        }
        return String(String.UnicodeScalarView(scalars))
    }

    private static func write(_ value: Value, to writer: inout JSONWriter) {
        switch value {
        case .null: writer.null()
        case .bool(let value): writer.bool(value)
        case .integer(let value): writer.integer(value)
        case .double(let value): writer.double(value)
        case .string(let value): writer.string(value)
        case .array(let values):
            writer.array { writer in
                for value in values { write(value, to: &writer) }
            }
        case .object(let members):
            writer.object { writer in
                for (key, value) in members {
                    writer.key(key)
                    write(value, to: &writer)
                }
            }
        }
    }

    private static func read(_ value: JSONValue) -> Value {
        switch value.kind {
        case .null: return .null
        case .true, .false: return .bool(value.bool!)
        case .number: return value.int64.map(Value.integer) ?? .double(value.double!)
        case .string: return .string(value.string!)
        case .array: return .array(value.elements.map(read))
        case .object:
            return .object(Dictionary(value.members.map { ($0.key.string!, read($0.value)) }, uniquingKeysWith: { $1 }))
        }
    }
}
