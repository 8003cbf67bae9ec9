package import Foundation

/// Fields that a user adds to each request, such as `Authorization`. They are for one origin: no other gets them.
package struct PageHeaders: Sendable {
    private let fields: [(name: String, value: String)]
    private let origin: Origin?

    /// - Parameters:
    ///   - lines: each `Name: value`.
    ///   - url: of the first page.
    package init(_ lines: [String], for url: URL) throws(PageError) {
        var fields: [(name: String, value: String)] = []
        for line in lines {
            let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            let name = parts[0]
            let value = parts.dropFirst().first?.trimmingCharacters(in: .whitespaces)
            // The value may be a secret, so a message does not have it.
            guard let value, Self.isToken(name), value.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F || $0 == 0x09 })
            else {
                throw PageError("A --header is not \"Name: value\"; its name is \"\(name.prefix(40))\".")
            }
            fields.append((String(name), value))
        }
        self.fields = fields
        origin = Origin(url)
    }

    /// RFC 9110, section 5.6.2.
    private static func isToken(_ name: Substring) -> Bool {
        !name.isEmpty
            && name.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"),
                    UInt8(ascii: "A")...UInt8(ascii: "Z"):
                    true
                default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
                }
            }
    }

    /// The fields for a URL: none where it has another scheme, host or port than the first page.
    func fields(for url: URL) -> [(name: String, value: String)] { Origin(url) == origin ? fields : [] }

    /// RFC 6454, section 4.
    private struct Origin: Equatable {
        let scheme: String?
        let host: String?
        let port: Int?

        init(_ url: URL) {
            scheme = url.scheme?.lowercased()
            host = url.host()?.lowercased()
            port = url.port ?? (scheme == "https" ? 443 : 80)
        }
    }
}
