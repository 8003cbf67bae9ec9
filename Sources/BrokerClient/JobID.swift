#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#elseif canImport(Darwin)
internal import Darwin
#endif

/// A job's id as a key: compared byte by byte, as the server does, so that two ids that differ in Unicode form only are
/// two ids, and looking one up takes linear time whatever is in it. (`String` compares canonical forms.)
struct JobID: Sendable, Hashable, CustomStringConvertible {
    /// Bytes that an id may have.
    static let byteCounts = 1...128

    let text: String

    init(_ text: String) { self.text = text }

    static func == (one: JobID, other: JobID) -> Bool {
        // The client makes texts whose bytes are there in one piece; others are compared one by one.
        one.text.utf8.withContiguousStorageIfAvailable { one in
            other.text.utf8.withContiguousStorageIfAvailable { other in
                one.count == other.count
                    && (one.isEmpty || memcmp(one.baseAddress!, other.baseAddress!, one.count) == 0)
            }
        }.flatMap(\.self) ?? one.text.utf8.elementsEqual(other.text.utf8)
    }

    func hash(into hasher: inout Hasher) {
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }

    var description: String { text }
}
