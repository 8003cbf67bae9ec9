internal import BrokerModel
package import Foundation
#if canImport(FoundationNetworking)
internal import FoundationNetworking
#endif

/// Gets pages over HTTP, each whole and into a file, with retries.
package final class PageClient: Sendable {
    /// The choices of a user.
    package struct Options: Sendable {
        package var headers: PageHeaders
        package var retries: RetryPolicy
        /// Bytes of one page.
        package var maximumBytes: Int
        /// Seconds without any byte after which a request has failed.
        package var idleSeconds: Double

        package init(headers: PageHeaders, retries: RetryPolicy, maximumBytes: Int, idleSeconds: Double) {
            self.headers = headers
            self.retries = retries
            self.maximumBytes = maximumBytes
            self.idleSeconds = idleSeconds
        }
    }

    private let options: Options
    private let report: @Sendable (String) -> Void
    private let session: URLSession
    private let transfers: PageTransfers

    /// - Parameter report: called before each wait, with the reason.
    package init(_ options: Options, report: @escaping @Sendable (String) -> Void) {
        self.options = options
        self.report = report
        let configuration = URLSessionConfiguration.ephemeral
        configuration.httpShouldSetCookies = false
        configuration.urlCache = nil
        configuration.requestCachePolicy = .reloadIgnoringLocalCacheData
        configuration.timeoutIntervalForRequest = options.idleSeconds
        transfers = PageTransfers(headers: options.headers)
        session = URLSession(configuration: configuration, delegate: transfers, delegateQueue: nil)
    }

    /// Must be called once, after the last page.
    package func close() { session.invalidateAndCancel() }

    /// - Parameter version: the one that is stored; the answer has no file when the page still has it.
    /// - Throws: a `PageError` after the last attempt, or a `CancellationError`.
    package func page(at url: URL, unless version: PageVersion? = nil) async throws -> Page {
        var attempts = 0
        while true {
            do {
                return try await attempt(url, version)
            } catch let error as PageError {
                attempts += 1
                switch options.retries.decision(after: error, attempts: attempts) {
                case .giveUp(let reason): throw PageError(error.description + reason)
                case .wait(let seconds):
                    report("\(error.description) Trying again in \(Int(seconds.rounded(.up))) s.")
                    try await Task.sleep(for: .seconds(seconds))
                }
            }
        }
    }

    private func attempt(_ url: URL, _ version: PageVersion?) async throws -> Page {
        try Self.check(url)
        var request = URLRequest(url: url)
        request.setValue("broker/\(BrokerVersion.text)", forHTTPHeaderField: "User-Agent")
        request.setValue("application/json, */*;q=0.8", forHTTPHeaderField: "Accept")
        if let etag = version?.etag { request.setValue(etag, forHTTPHeaderField: "If-None-Match") }
        if let date = version?.lastModified { request.setValue(date, forHTTPHeaderField: "If-Modified-Since") }
        for (name, value) in options.headers.fields(for: url) { request.setValue(value, forHTTPHeaderField: name) }
        let task = session.dataTask(with: request)
        return try await transfers.finish(task, url, maximumBytes: options.maximumBytes)
    }

    /// Only http and https are followed, from wherever a URL comes.
    package static func check(_ url: URL) throws(PageError) {
        guard let scheme = url.scheme?.lowercased(), scheme == "http" || scheme == "https", url.host()?.isEmpty == false
        else { throw PageError("\(url.absoluteString) is no URL of http or https.") }
        guard url.user() == nil, url.password() == nil else {
            throw PageError(
                "The URL has a user's name or password, which other users can see in the list of processes. Give them in "
                    + "a file: --header @FILE, with the line Authorization: Basic …")
        }
    }
}
