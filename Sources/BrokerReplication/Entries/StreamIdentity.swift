#if Replication
internal import CZlib

/// The permanent identity of a stream: random, and in the stream's metadata from its creation on.
package struct StreamIdentity: Sendable, Hashable, CustomStringConvertible {
    /// 32 hexadecimal digits.
    package let description: String

    /// The initial value of the checksums of its entries.
    let seed: UInt32

    /// A new one.
    package init() {
        self.init(SessionID().description + SessionID().description)!
    }

    /// Parses ``description``; nil for any other text.
    package init?(_ text: String) {
        guard text.utf8.count == 32, text.utf8.allSatisfy({ Self.isHexadecimal($0) }) else { return nil }
        description = text
        var text = text
        seed = text.withUTF8 { UInt32(crc32_z(0, $0.baseAddress, $0.count)) }
    }

    private static func isHexadecimal(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"): true
        default: false
        }
    }
}
#endif
