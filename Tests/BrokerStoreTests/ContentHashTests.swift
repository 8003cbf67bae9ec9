import Testing

@testable import BrokerStore

@Suite(.timeLimit(.minutes(5))) struct ContentHashTests {
    /// The hashes of the bytes 0, 1, 2 … with the key 0, 1 … 15, from `openssl mac -macopt size:16 SIPHASH`.
    ///
    /// The first ones are those of the authors' own test.
    @Test(arguments: [
        (0, "a3817f04ba25a8e66df67214c7550293"), (1, "da87c1d86b99af44347659119b22fc45"),
        (2, "8177228da4a45dc7fca38bdef60affe4"), (7, "a1f1ebbed8dbc153c0b84aa61ff08239"),
        (8, "3b62a9ba6258f5610f83e264f31497b4"), (9, "264499060ad9baabc47f8b02bb6d71ed"),
        (15, "5493e99933b0a8117e08ec0f97cfc3d9"), (16, "6ee2a4ca67b054bbfd3315bf85230577"),
        (17, "473d06e8738db89854c066c47ae47740"), (63, "5150d1772f50834a503e069a973fbd7c"),
        (255, "1c9bb67528165f8e468248e3799b0eab"), (256, "67a00304d3834c4612eaee7b5f579acb"),
        (257, "1b25fee1ef6fbb23179c26056c2995fc"), (1_000, "24dafa789ae03d86536a4b57372f0ba6"),
    ])
    func `it is SipHash-2-4 of 128 bits`(count: Int, expected: String) {
        let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0) }
        let key: (UInt64, UInt64) = (0x0706_0504_0302_0100, 0x0F0E_0D0C_0B0A_0908)
        let hash = bytes.withUnsafeBytes { ContentHash.hash($0, key: key) }
        #expect(hash.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined() == expected)
    }

    /// The hashes of as many words, whose bytes are 0, 1, 2 …, from `openssl mac -macopt size:16 -macopt c-rounds:1
    /// -macopt d-rounds:3 SIPHASH`. SipHash ends with a word that has the length in its highest byte.
    @Test(arguments: [
        (0, "01f136da4fcd17c8fedd139ae28ece33"), (1, "4be210f8d4e4c9abef2ff400154ab242"),
        (2, "9544c73d8b7c7024499f21434191b659"), (3, "fda0561c14d19d99fba903ff06a6af16"),
        (7, "7cf73258947de50fee9193afe69d1f5d"), (8, "d14568fca9dcfc82e9b1e7b54ff115ea"),
        (16, "a52ae315f3538c356a7a3f59744ed4da"), (125, "d69b4128235fc535033a46e85b3d1bc8"),
    ])
    func `fields are hashed by SipHash-1-3 of 128 bits`(count: Int, expected: String) {
        var hasher = FieldHasher()
        for word in 0..<count {
            hasher.add((0..<8).reduce(0) { $0 | UInt64(UInt8(truncatingIfNeeded: 8 * word + $1)) << (8 * UInt64($1)) })
        }
        hasher.add(UInt64(UInt8(truncatingIfNeeded: 8 * count)) << 56)
        let hash = hasher.finish().withBytes { Array($0) }
        #expect(hash.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined() == "03" + expected)
    }

    @Test func `a field of bytes is hashed like its length and its words`() {
        let bytes = (0..<40).map { UInt8($0 * 6) }
        for count in 0...40 {
            var whole = FieldHasher()
            bytes[..<count].withUnsafeBytes { whole.add($0) }
            var words = FieldHasher()
            words.add(UInt64(count))
            for start in stride(from: 0, through: count, by: 8) {
                let word = bytes[start..<min(start + 8, count)]
                words.add(word.reversed().reduce(0) { $0 << 8 | UInt64($1) })
            }
            #expect(whole.finish() == words.finish(), "\(count) bytes")
        }
    }

    @Test func `a job's hash has the bytes that it is made of, and differs where they do`() {
        let hashes = (0...40).map { count in (0..<count).map { UInt8($0 + 1) } }
        for bytes in hashes {
            #expect(JobHash(bytes).withBytes { Array($0) } == bytes)
            #expect(hashes.count { JobHash($0) == JobHash(bytes) } == 1)
            guard !bytes.isEmpty else { continue }
            for place in bytes.indices {
                var changed = bytes
                changed[place] ^= 0x80
                #expect(JobHash(changed) != JobHash(bytes))
            }
        }
        #expect(JobHash([0]) != JobHash([0, 0]), "zeros count")
    }

    @Test func `every byte of the content counts`() {
        let content = Array(#"{"entity":"Employee","json":[{"id":1}]}"#.utf8)
        let hash = { (bytes: [UInt8]) in bytes.withUnsafeBytes { ContentHash.hash($0) } }
        let all = content.indices.map { place in
            var changed = content
            changed[place] ^= 1
            return hash(changed)
        }
        #expect(Set(all + [hash(content), hash(content + [0])]).count == content.count + 2)
    }
}
