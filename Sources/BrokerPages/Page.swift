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
    package let body: PageBody?
    /// The media type without its parameters, in lower case; empty when there is none.
    package let mediaType: String
    package let version: PageVersion
    /// The page that `Link` names as the next one.
    package let next: URL?
}
