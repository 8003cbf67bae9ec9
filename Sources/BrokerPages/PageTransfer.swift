internal import Foundation
#if canImport(FoundationNetworking)
internal import FoundationNetworking
#endif

/// A page on its way into a file.
struct PageTransfer: Sendable {
    private let url: URL
    private let maximumBytes: Int
    private let continuation: CheckedContinuation<Page, any Error>
    private var response: HTTPURLResponse?
    private var body: PageBody?
    private var byteCount = 0
    private var redirections = 0
    /// Why the transfer was ended here.
    private var failure: PageError?

    init(_ url: URL, maximumBytes: Int, _ continuation: CheckedContinuation<Page, any Error>) {
        self.url = url
        self.maximumBytes = maximumBytes
        self.continuation = continuation
    }

    /// As many as browsers follow.
    private static let mostRedirections = 20

    /// - Returns: false when it is one too many.
    mutating func redirect() -> Bool {
        redirections += 1
        return redirections <= Self.mostRedirections
    }

    /// - Returns: false when the body is of no use.
    mutating func begin(_ response: URLResponse) -> Bool {
        guard let response = response as? HTTPURLResponse else { return false }
        self.response = response
        switch response.statusCode {
        case 200:
            guard response.expectedContentLength <= Int64(maximumBytes) else { return stop() }
            do throws(PageError) {
                body = try PageBody()
                return true
            } catch {
                failure = error
                return false
            }
        default: return false
        }
    }

    /// - Returns: false when the transfer must end.
    mutating func append(_ data: Data) -> Bool {
        byteCount += data.count
        guard byteCount <= maximumBytes else { return stop() }
        do throws(PageError) {
            try body?.append(data)
            return true
        } catch {
            failure = error
            return false
        }
    }

    private mutating func stop() -> Bool {
        failure = PageError("\(url.absoluteString) has more than \(maximumBytes) bytes; --max-bytes allows more.")
        return false
    }

    func end(_ error: (any Error)?) {
        continuation.resume(with: Result { try page(error) })
    }

    private func page(_ error: (any Error)?) throws -> Page {
        if let failure { throw failure }
        if let response, response.statusCode != 200 { return try answer(response) }
        if let error {
            if Task.isCancelled { throw CancellationError() }
            let end = byteCount > 0 ? " after \(byteCount) bytes, and nothing of it is used" : ""
            let isLate = (error as? URLError)?.code == .timedOut
            let cause = isLate ? "no bytes came in the time of --request-timeout" : error.localizedDescription
            throw PageError("\(url.absoluteString) could not be read\(end): \(cause).", isTemporary: true)
        }
        guard let response, let body else { throw PageError("\(url.absoluteString) has no answer.", isTemporary: true) }
        return page(response, body)
    }

    /// An answer without a body that is used.
    private func answer(_ response: HTTPURLResponse) throws(PageError) -> Page {
        let status = response.statusCode
        switch status {
        case 304: return page(response, nil)
        case 300...399:
            throw PageError(
                "\(url.absoluteString) redirects to "
                    + "\(response.value(forHTTPHeaderField: "Location") ?? "nowhere"), which is not followed.")
        case 429, 502, 503, 504:
            let text = response.value(forHTTPHeaderField: "Retry-After")
            throw PageError(
                "\(url.absoluteString) was refused with status \(status).", isTemporary: true,
                retryAfter: text.flatMap(RetryAfter.init))
        case 401, 403:
            throw PageError(
                "\(url.absoluteString) was refused with status \(status); --header gives a token, such as "
                    + "--header @FILE with the line Authorization: Bearer …")
        default: throw PageError("\(url.absoluteString) was answered with status \(status).")
        }
    }

    private func page(_ response: HTTPURLResponse, _ body: PageBody?) -> Page {
        func field(_ name: String) -> String? { response.value(forHTTPHeaderField: name) }
        let url = response.url ?? url
        let type = field("Content-Type")?.split(separator: ";").first?.trimmingCharacters(in: .whitespaces).lowercased()
        let next = field("Link").flatMap { LinkHeader.target(of: "next", in: $0) }
        return Page(
            url: url, body: body, mediaType: type ?? "",
            version: PageVersion(etag: field("ETag"), lastModified: field("Last-Modified")),
            next: next.flatMap { URL(string: $0, relativeTo: url)?.absoluteURL })
    }
}
