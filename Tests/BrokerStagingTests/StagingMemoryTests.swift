import Testing

@testable import BrokerStaging

/// Staging asks for the memory of its rows and rejections.
@Suite(.timeLimit(.minutes(5))) struct StagingMemoryTests {
    private let staging: Staging

    init() throws {
        staging = try Staging(
            """
            {"entities": {
              "Person": {"identity": "id", "attributes": {"id": "integer64", "name": "string"},
                         "relationships": {"friends": {"entity": "Person", "toMany": true}}}}}
            """)
    }

    private func payload(_ record: String, _ count: Int) -> String {
        "{\"Person\": [" + Array(repeating: record, count: count).joined(separator: ",") + "]}"
    }

    @Test(arguments: ["{}", #"{"id": 1, "friends": [{}]}"#, #"{"id": 1, "friends": ["x"]}"#])
    func `a listed rejection takes the memory of its message on the way to the client`(record: String) throws {
        let taken = try #require(try staging.memory(payload(record, 1_000), .skip))
        #expect(taken > 1_000 * RejectionList.listedBytes)
        #expect(try staging.memory(payload(record, 1_000), .skip, limit: taken / 2) == nil)
    }

    @Test func `a rejection that is only counted takes no memory`() throws {
        let listed = try #require(try staging.memory(payload("{}", RejectionList.maximumListed), .skip))
        let counted = try #require(try staging.memory(payload("{}", 3 * RejectionList.maximumListed), .skip))
        #expect(counted == listed)
    }

    @Test func `rows take more than their text`() throws {
        let records = (0..<1_000).map { "{\"id\": \($0)}" }.joined(separator: ",")
        let taken = try #require(try staging.memory("{\"Person\": [\(records)]}"))
        #expect(taken > records.utf8.count)
        #expect(try staging.memory("{\"Person\": [\(records)]}", limit: taken / 2) == nil)
    }

    @Test func `a context counts its memory besides rows, and an entry for each entity of the model`() throws {
        let small = try #require(try staging.memory(#"{"Person": {"id": 1}}"#))
        #expect(small >= 3_072)
        #expect(try staging.memory(#"{"Person": {"id": 1}}"#, limit: 3_000) == nil)
        let entities = (0..<1_000).map { #""E\#($0)": {"identity": "id", "attributes": {"id": "integer64"}}"# }
        let many = try Staging("{\"entities\": {\(entities.joined(separator: ","))}}")
        let large = try #require(try many.memory(#"{"E0": {"id": 1}}"#))
        #expect(large >= small + 999 * MemoryLayout<UnsafeRawPointer>.stride)
    }
}

/// Comparison of byte ranges.
@Suite(.timeLimit(.minutes(5))) struct BytesTests {
    @Test func `ranges of any length are equal only when every byte is`() {
        func areEqual(_ left: [UInt8], _ right: [UInt8]) -> Bool {
            left.withUnsafeBufferPointer { left in
                right.withUnsafeBufferPointer { Bytes.areEqual(left, $0) }
            }
        }
        for count in 0...40 {
            let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 * 37 + 5) }
            #expect(areEqual(bytes, Array(bytes)), "\(count) bytes")
            #expect(!areEqual(bytes, bytes + [0]), "\(count) bytes and one more")
            for position in bytes.indices {
                var other = bytes
                other[position] ^= 0x80
                #expect(!areEqual(bytes, other), "the byte \(position) of \(count)")
            }
        }
    }
}
