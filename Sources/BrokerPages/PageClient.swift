internal import BrokerInput
internal import BrokerModel
internal import CCurl
package import Foundation

/// Gets pages over HTTP by libcurl, each whole and into a file, with retries.
package final class PageClient: Sendable {
    /// The choices of a user.
    package struct Options: Sendable {
        package var headers: PageHeaders
        package var retries: RetryPolicy
        /// Bytes of one page.
        package var maximumBytes: Int
        /// Seconds without any byte after which a request has failed.
        package var idleSeconds: Double
        /// Seconds after which a page that is not whole has failed.
        package var pageSeconds: Double

        package init(
            headers: PageHeaders, retries: RetryPolicy, maximumBytes: Int, idleSeconds: Double, pageSeconds: Double
        ) {
            self.headers = headers
            self.retries = retries
            self.maximumBytes = maximumBytes
            self.idleSeconds = idleSeconds
            self.pageSeconds = pageSeconds
        }
    }

    private let options: Options
    private let report: @Sendable (String) -> Void
    private let queue = DispatchQueue(label: "pages")
    // Used on the queue alone, and released after the last use. It keeps connections open between two pages.
    nonisolated(unsafe) private let curl: UnsafeMutableRawPointer

    /// - Parameter report: called before each wait, with the reason.
    package init(_ options: Options, report: @escaping @Sendable (String) -> Void) {
        guard let curl = curl_easy_init() else { preconditionFailure("out of memory for an HTTP client") }
        self.curl = curl
        self.options = options
        self.report = report
    }

    deinit { curl_easy_cleanup(curl) }

    /// - Parameter version: the one that is stored; the answer has no file when the page still has it.
    /// - Throws: a `PageError` after the last attempt, or a `CancellationError`.
    package func page(at url: URL, unless version: PageVersion? = nil) async throws -> Page {
        var attempts = 0
        while true {
            let result = await withCheckedContinuation { continuation in
                queue.async {
                    continuation.resume(
                        returning: Result { () throws(PageError) in try self.attempt(url, version ?? PageVersion()) })
                }
            }
            do throws(PageError) {
                return try result.get()
            } catch {
                attempts += 1
                switch options.retries.decision(after: error, attempts: attempts) {
                case .giveUp(let reason):
                    throw PageError(error.description + reason, isRefusal: error.isRefusal)
                case .wait(let seconds):
                    report("\(error.description) Trying again in \(Int(seconds.rounded(.up))) s.")
                    try await Task.sleep(for: .seconds(seconds))
                }
            }
        }
    }

    /// As many as browsers follow.
    private static let mostRedirections = 20

    private func attempt(_ first: URL, _ version: PageVersion) throws(PageError) -> Page {
        try Self.check(first)
        var url = first
        let end = ContinuousClock.now + .seconds(options.pageSeconds)
        var redirections = 0
        while true {
            let transfer = PageTransfer(url, maximumBytes: options.maximumBytes)
            let rest = ContinuousClock.now.duration(to: end)
            try transfer.perform(
                curl, lines(for: url, version), idleSeconds: options.idleSeconds, seconds: max(0, rest / .seconds(1)))
            guard [301, 302, 303, 307, 308].contains(transfer.status) else { return try page(transfer, url, version) }
            let target = transfer.fields["location"].flatMap { URL(string: $0, relativeTo: url)?.absoluteURL }
            guard redirections < Self.mostRedirections, let target, (try? Self.check(target)) != nil else {
                throw PageError(
                    "\(url.absoluteString) redirects to \(transfer.fields["location"] ?? "nowhere"), which is not "
                        + "followed.", isRefusal: true)
            }
            url = target
            redirections += 1
        }
    }

    private func page(_ transfer: PageTransfer, _ url: URL, _ version: PageVersion) throws(PageError) -> Page {
        let (status, place) = (transfer.status, url.absoluteString)
        switch status {
        case 200:
            do throws(UnnamedFile.Failure) {
                let body = if let body = transfer.body { body } else { try UnnamedFile() }
                return Page(url: url, body: body, fields: transfer.fields)
            } catch {
                throw PageError(error.description)
            }
        case 304 where version.isKnown: return Page(url: url, body: nil, fields: transfer.fields)
        case 304:
            throw PageError(
                "\(place) was answered with status 304 (not changed), although the request was not for a changed page "
                    + "alone: the server, or a cache before it, is at fault.")
        case 429, 502, 503, 504:
            throw PageError(
                "\(place) was refused with status \(status).", isTemporary: true,
                retryAfter: transfer.fields["retry-after"].flatMap(RetryAfter.init))
        case 401, 403:
            throw PageError(
                "\(place) was refused with status \(status); --header gives a token, such as "
                    + "--header @FILE with the line Authorization: Bearer …", isRefusal: true)
        default: throw PageError("\(place) was answered with status \(status).", isRefusal: true)
        }
    }

    /// The fields of a request. Those of the user replace the others.
    private func lines(for url: URL, _ version: PageVersion) -> [String] {
        let fields = options.headers.fields(for: url)
        let own: [(name: String, value: String?)] = [
            ("User-Agent", "broker/\(BrokerVersion.text)"), ("Accept", "application/json, */*;q=0.8"),
            ("If-None-Match", version.etag), ("If-Modified-Since", version.lastModified),
        ]
        let names = Set(fields.map { $0.name.lowercased() })
        return own.compactMap { name, value in
            names.contains(name.lowercased()) ? nil : value.map { "\(name): \($0)" }
        }
            // libcurl takes a line without a value for one that is not to be sent.
            + fields.map { $0.value.isEmpty ? "\($0.name);" : "\($0.name): \($0.value)" }
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
