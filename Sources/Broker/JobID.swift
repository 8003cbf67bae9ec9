#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#elseif canImport(Darwin)
internal import Darwin
#endif

/// The id of a job: 1 to 128 bytes, chosen by its sender. A job is applied exactly once under one id.
///
/// Ids are compared byte by byte, as the server does, so that two ids that differ in Unicode form only are two ids.
/// (`String` compares canonical forms.)
public struct JobID: Sendable, Hashable, CustomStringConvertible, ExpressibleByStringLiteral {
    /// Bytes that an id may have.
    public static let byteCounts = 1...128

    public let text: String

    public init(_ text: String) { self.text = text }

    public init(stringLiteral text: String) { self.text = text }

    public static func == (one: JobID, other: JobID) -> Bool {
        // The client makes texts whose bytes are there in one piece; others are compared one by one.
        one.text.utf8.withContiguousStorageIfAvailable { one in
            other.text.utf8.withContiguousStorageIfAvailable { other in
                one.count == other.count
                    && (one.isEmpty || memcmp(one.baseAddress!, other.baseAddress!, one.count) == 0)
            }
        }.flatMap(\.self) ?? one.text.utf8.elementsEqual(other.text.utf8)
    }

    public func hash(into hasher: inout Hasher) {
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }

    public var description: String { text }

    /// - Throws: ``BrokerError/Code/invalidID``
    package func checked() throws(BrokerError) -> JobID {
        guard Self.byteCounts.contains(text.utf8.count) else { throw .invalidID(self) }
        return self
    }
}
