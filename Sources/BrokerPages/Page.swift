package import BrokerInput
package import Foundation

/// A version of a page as its server names it, to ask later whether the page has changed (RFC 9110, section 13).
package struct PageVersion: Hashable, Sendable, Codable {
    package var etag: String?
    package var lastModified: String?

    package init(etag: String? = nil, lastModified: String? = nil) {
        self.etag = etag
        self.lastModified = lastModified
    }

    package var isKnown: Bool { etag != nil || lastModified != nil }
}

/// The whole answer to a request for a page.
package struct Page: Sendable {
    /// Where it came from, after redirections.
    package let url: URL
    /// The body, whole; nil when the page has not changed.
    package let body: UnnamedFile?
    /// The fields of the response by their names in lower case; several of one name with commas between them.
    let fields: [String: String]

    package init(url: URL, body: UnnamedFile?, fields: [String: String]) {
        self.url = url
        self.body = body
        self.fields = fields
    }

    /// The media type without its parameters, in lower case; empty when there is none.
    package var mediaType: String {
        let type = fields["content-type"]?.split(separator: ";").first
        return type?.trimmingCharacters(in: .whitespaces).lowercased() ?? ""
    }

    package var version: PageVersion { PageVersion(etag: fields["etag"], lastModified: fields["last-modified"]) }

    /// The next page according to the field `Link`.
    package var link: LinkHeader { LinkHeader(fields["link"] ?? "", of: url) }
}
