package import BrokerInput
internal import BrokerModel
internal import CCurl
package import Foundation

/// Gets pages over HTTP by libcurl, each whole and into a file, with retries.
package final class PageClient: Sendable {
    private let headers: PageHeaders
    private let retries: RetryPolicy
    private let maximumBytes: Int
    private let idleSeconds: Double
    private let pageSeconds: Double
    private let report: @Sendable (String) -> Void
    private let queue = DispatchQueue(label: "pages")
    // Used on the queue alone, and released after the last use. It keeps connections open between two pages.
    nonisolated(unsafe) private let curl: UnsafeMutableRawPointer

    /// - Parameters:
    ///   - maximumBytes: of one page.
    ///   - idleSeconds: without any byte, after which a request has failed.
    ///   - pageSeconds: after which a page that is not whole has failed.
    ///   - report: called before each wait, with the reason.
    package init(
        headers: PageHeaders, retries: RetryPolicy, maximumBytes: Int, idleSeconds: Double, pageSeconds: Double,
        report: @escaping @Sendable (String) -> Void
    ) {
        guard let curl = curl_easy_init() else { preconditionFailure("out of memory for an HTTP client") }
        self.curl = curl
        self.headers = headers
        self.retries = retries
        self.maximumBytes = maximumBytes
        self.idleSeconds = idleSeconds
        self.pageSeconds = pageSeconds
        self.report = report
    }

    deinit { curl_easy_cleanup(curl) }

    /// - Parameter version: the one that is stored; the answer has no file when the page still has it.
    package func page(for request: PageRequest, unless version: PageVersion? = nil) async throws -> Page {
        var attempts = 0
        while true {
            let result = await withCheckedContinuation { continuation in
                queue.async {
                    continuation.resume(
                        returning: Result { () throws(PageError) in
                            try self.attempt(request, version ?? PageVersion())
                        })
                }
            }
            do throws(PageError) {
                return try result.get()
            } catch {
                attempts += 1
                switch retries.decision(after: error, attempts: attempts) {
                case .giveUp(let reason):
                    throw PageError(
                        error.description + reason, isRefusal: error.isRefusal, isMissing: error.isMissing)
                case .wait(let seconds):
                    report("\(error.description) Trying again in \(Int(seconds.rounded(.up))) s.")
                    try await Task.sleep(for: .seconds(seconds))
                }
            }
        }
    }

    /// As many as browsers follow.
    private static let mostRedirections = 20

    private func attempt(_ request: PageRequest, _ version: PageVersion) throws(PageError) -> Page {
        try Self.check(request.url)
        var url = request.url
        let end = ContinuousClock.now + .seconds(pageSeconds)
        var redirections = 0
        while true {
            let transfer = PageTransfer(url, body: request.body, maximumBytes: maximumBytes)
            let rest = ContinuousClock.now.duration(to: end)
            try transfer.perform(
                curl, lines(for: url, version, type: request.contentType), idleSeconds: idleSeconds,
                seconds: max(0, rest / .seconds(1)))
            guard [301, 302, 303, 307, 308].contains(transfer.status) else { return try page(transfer, url, version) }
            let target = transfer.fields["location"].flatMap { URL(string: $0, relativeTo: url)?.absoluteURL }
            // What was sent by POST is sent again by 307 and 308 alone (RFC 9110, section 15.4).
            let isRepeated = request.body == nil || transfer.status > 303
            guard redirections < Self.mostRedirections, isRepeated, let target, (try? Self.check(target)) != nil else {
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
        // A part of a list, and none of the bytes of a file.
        let isPartial = status == 206 && !(transfer.fields["content-range"] ?? "bytes").hasPrefix("bytes")
        switch status {
        case 200, 204,
            206 where isPartial:
            do throws(UnnamedFile.Failure) {
                let body = if let body = transfer.body { body } else { try UnnamedFile() }
                return Page(
                    url: url, body: body, fields: transfer.fields, hasContent: status != 204, isPartial: isPartial)
            } catch {
                throw PageError(error.description)
            }
        case 304 where version.isKnown: return Page(url: url, body: nil, fields: transfer.fields)
        case 304:
            throw PageError(
                "\(place) was answered with status 304 (not changed), although the request was not for a changed page "
                    + "alone: the server, or a cache before it, is at fault.")
        case 429, 502, 503, 504,
            403 where RetryPolicy.isLimit(transfer.fields):
            let reason = status == 403 ? ", as a limit of the rate is" : ""
            throw PageError(
                "\(place) was refused with status \(status)\(reason).", isTemporary: true,
                retryAfter: RetryPolicy.wait(askedForBy: transfer.fields, now: Date()))
        case 401, 403:
            throw PageError(
                "\(place) was refused with status \(status); --header gives a token, such as "
                    + "--header @FILE with the line Authorization: Bearer …", isRefusal: true)
        default:
            throw PageError(
                "\(place) was answered with status \(status).", isRefusal: true, isMissing: status == 404)
        }
    }

    /// The fields of a request. Those of the user replace the others.
    private func lines(for url: URL, _ version: PageVersion, type: String?) -> [String] {
        let fields = headers.fields(for: url)
        let own: [(name: String, value: String?)] = [
            ("User-Agent", "broker/\(BrokerVersion.text)"), ("Accept", "application/json, */*;q=0.8"),
            ("If-None-Match", version.etag), ("If-Modified-Since", version.lastModified), ("Content-Type", type),
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

/// A version of a page as its server names it, to ask later whether the page has changed (RFC 9110, section 13).
package struct PageVersion: Hashable, Sendable, Codable {
    package var etag: String?
    package var lastModified: String?

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
    /// False for status 204: there are no records, in whatever format.
    package internal(set) var hasContent = true
    /// It was status 206: others follow, or came before.
    var isPartial = false

    /// The media type without its parameters, in lower case; empty when there is none.
    package var mediaType: String {
        let type = fields["content-type"]?.split(separator: ";").first
        return type?.trimmingCharacters(in: .whitespaces).lowercased() ?? ""
    }

    package var version: PageVersion { PageVersion(etag: fields["etag"], lastModified: fields["last-modified"]) }

    /// The next page according to the field `Link`.
    package var link: LinkHeader { LinkHeader(fields["link"] ?? "", of: url) }
}

/// How often and after which time a request is made again.
package struct RetryPolicy: Sendable {
    /// Attempts after the first.
    package let retries: Int
    /// Seconds that may pass before one attempt.
    package let longestWait: Double
    /// Seconds before the first attempt; each further wait is twice as long.
    private static let firstWait = 1.0

    package init(retries: Int, longestWait: Double) {
        self.retries = retries
        self.longestWait = longestWait
    }

    /// Whether to try again, and when.
    package enum Decision: Equatable, Sendable {
        case wait(seconds: Double)
        case giveUp(reason: String)
    }

    /// - Parameter chance: 0 to 1, so that many clients do not return at the same moment.
    package func decision(
        after error: PageError, attempts: Int, chance: Double = .random(in: 0...1)
    ) -> Decision {
        guard error.isTemporary else { return .giveUp(reason: "") }
        guard attempts <= retries else {
            return .giveUp(reason: retries == 0 ? "" : " \(attempts) attempts failed; --retries allows more.")
        }
        if let wanted = error.retryAfter {
            // Less than the server asks for would be impolite.
            guard wanted <= longestWait else {
                let seconds = wanted.isFinite ? "\(Int(min(wanted.rounded(.up), 1e15)))" : "too many"
                return .giveUp(reason: " It asks to wait \(seconds) seconds; --max-wait allows \(Int(longestWait)).")
            }
            return .wait(seconds: wanted)
        }
        let wait = Self.firstWait * pow(2, Double(min(attempts - 1, 30)))
        return .wait(seconds: min(longestWait, wait) * (0.5 + chance / 2))
    }

    /// A 403 is for a time: it says when to come again, or that no request is left.
    static func isLimit(_ fields: [String: String]) -> Bool {
        fields["retry-after"] != nil || remainingFields.contains { fields[$0] == "0" }
    }

    private static let remainingFields = ["x-ratelimit-remaining", "x-rate-limit-remaining", "ratelimit-remaining"]
    private static let resetFields = ["x-ratelimit-reset", "x-rate-limit-reset", "ratelimit-reset"]
    /// Larger numbers are no seconds from now on, but since 1970.
    private static let leastEpoch = 1e9

    /// By `Retry-After`, else by the time at which the limit of the rate ends; nil when the response says neither.
    static func wait(askedForBy fields: [String: String], now: Date) -> Double? {
        if let text = fields["retry-after"] { return wait(askedFor: text, now: now) }
        guard let number = resetFields.lazy.compactMap({ fields[$0] }).compactMap({ Double($0) }).first, number >= 0
        else { return nil }
        return number < leastEpoch ? number : max(0, number - now.timeIntervalSince1970)
    }

    /// The seconds that a server asks a client to wait (RFC 9110, section 10.2.3): a number, or a date in one of the forms of
    /// section 5.6.7. Nil for other texts.
    static func wait(askedFor text: String, now: Date) -> Double? {
        if !text.isEmpty, text.utf8.allSatisfy((UInt8(ascii: "0")...UInt8(ascii: "9")).contains) {
            // A number that no integer holds is a long time, too.
            return Double(text) ?? .infinity
        }
        let date = curl_getdate(text, nil)
        return date < 0 ? nil : max(0, Double(date) - now.timeIntervalSince1970)
    }
}

/// Fields that a user adds to each request, such as `Authorization`. They are for one origin: no other gets them.
package struct PageHeaders: Sendable {
    private let fields: [(name: String, value: String)]
    private let origin: [String?]

    /// - Parameter urls: of one origin, if there are fields.
    package init(_ lines: [String], for urls: [URL]) throws(PageError) {
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
        origin = urls.first.map(Self.origin) ?? []
        guard fields.isEmpty || !urls.contains(where: { Self.origin(of: $0) != origin }) else {
            throw PageError("--header is for one host, and the URLs are of several; load them one by one.")
        }
    }

    /// RFC 9110, section 5.6.2.
    private static func isToken(_ name: Substring) -> Bool {
        name.wholeMatch(of: /[-!#$%&'*+.^_`|~0-9A-Za-z]+/) != nil
    }

    /// The fields for a URL: none where it has another scheme, host or port than the first page.
    func fields(for url: URL) -> [(name: String, value: String)] { Self.origin(of: url) == origin ? fields : [] }

    /// Scheme, host and port (RFC 6454, section 4).
    private static func origin(of url: URL) -> [String?] {
        let scheme = url.scheme?.lowercased()
        return [scheme, url.host()?.lowercased(), "\(url.port ?? (scheme == "https" ? 443 : 80))"]
    }
}

/// Why a page could not be had.
package struct PageError: Error, Sendable, CustomStringConvertible {
    /// What happened, where, and the remedy.
    package let description: String
    /// Another attempt may succeed, after these seconds when the server names some.
    let isTemporary: Bool
    let retryAfter: Double?
    /// The server has answered that there is no such page, or none for this client.
    package let isRefusal: Bool
    /// It was status 404.
    package let isMissing: Bool

    package init(
        _ description: String, isTemporary: Bool = false, retryAfter: Double? = nil, isRefusal: Bool = false,
        isMissing: Bool = false
    ) {
        self.description = description
        self.isTemporary = isTemporary
        self.retryAfter = retryAfter
        self.isRefusal = isRefusal
        self.isMissing = isMissing
    }
}

/// One request and its response, whose body goes into a file as it arrives. Belongs to one thread.
final class PageTransfer {
    private let url: URL
    private let sentBody: [UInt8]?
    private let maximumBytes: Int
    /// The status of the last response, after those with 1xx.
    private(set) var status = 0
    private(set) var fields: [String: String] = [:]
    /// The field that a line which begins with a blank continues (RFC 9112, section 5.2).
    private var lastField = ""
    private var fieldBytes = 0
    private var hasAllFields = false
    private(set) var body: UnnamedFile?
    private var byteCount = 0
    /// Why the transfer was ended here.
    private var failure: PageError?

    /// All fields of a response; libcurl limits each of them.
    private static let mostFieldBytes = 256 << 10

    /// - Parameter body: sent by POST; nil for GET.
    init(_ url: URL, body: [UInt8]?, maximumBytes: Int) {
        self.url = url
        sentBody = body
        self.maximumBytes = maximumBytes
    }

    /// The status of responses whose body is read.
    private static let withBody = [200, 206]

    /// Sends the request, and reads the response; a body only of some.
    func perform(
        _ curl: UnsafeMutableRawPointer, _ lines: [String], idleSeconds: Double, seconds: Double
    ) throws(PageError) {
        curl_easy_reset(curl)
        var list: UnsafeMutablePointer<curl_slist>?
        for line in lines { list = curl_slist_append(list, line) }
        defer { curl_slist_free_all(list) }
        let reason = UnsafeMutablePointer<CChar>.allocate(capacity: Int(CURL_ERROR_SIZE))
        reason.initialize(repeating: 0, count: Int(CURL_ERROR_SIZE))
        defer {
            broker_curl_set_pointer(curl, CURLOPT_ERRORBUFFER, nil)
            reason.deallocate()
        }
        let milliseconds = { (seconds: Double) in curl_off_t(max(1, min(seconds * 1_000, 1e9))) }
        broker_curl_set_pointer(curl, CURLOPT_ERRORBUFFER, reason)
        broker_curl_set_pointer(curl, CURLOPT_URL, url.absoluteString)
        broker_curl_set_pointer(curl, CURLOPT_HTTPHEADER, list)
        // All that libcurl reads, which also unpacks them.
        broker_curl_set_pointer(curl, CURLOPT_ACCEPT_ENCODING, "")
        if let sentBody {
            broker_curl_set(curl, CURLOPT_POST, 1)
            broker_curl_set(curl, CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t(sentBody.count))
            sentBody.withUnsafeBytes { _ = broker_curl_set_pointer(curl, CURLOPT_COPYPOSTFIELDS, $0.baseAddress) }
        }
        broker_curl_set(curl, CURLOPT_NOSIGNAL, 1)
        broker_curl_set(curl, CURLOPT_NOPROGRESS, 0)
        broker_curl_set(curl, CURLOPT_CONNECTTIMEOUT_MS, milliseconds(min(idleSeconds, seconds)))
        broker_curl_set(curl, CURLOPT_LOW_SPEED_LIMIT, 1)
        broker_curl_set(curl, CURLOPT_LOW_SPEED_TIME, curl_off_t(idleSeconds.rounded(.up)))
        broker_curl_set(curl, CURLOPT_TIMEOUT_MS, milliseconds(seconds))
        broker_curl_set_callbacks(
            curl, Unmanaged.passUnretained(self).toOpaque(),
            { bytes, size, count, context in
                PageTransfer.of(context).takeField(UnsafeRawBufferPointer(start: bytes, count: size * count))
                    ? size * count : 0
            },
            { bytes, size, count, context in
                PageTransfer.of(context).take(UnsafeRawBufferPointer(start: bytes, count: size * count))
                    ? size * count : 0
            },
            { context, total, received, _, _ in PageTransfer.of(context).mayGoOn(total, received) ? 0 : 1 })
        let start = ContinuousClock.now
        let code = curl_easy_perform(curl)
        if let failure { throw failure }
        // The body of another response is not read.
        guard code != CURLE_OK, code != CURLE_WRITE_ERROR || Self.withBody.contains(status) else {
            if hasAllFields { return }
            // The connection ended among the fields, which is the end of the response for libcurl.
            throw error(CURLE_RECV_ERROR, isLate: false, "the connection ended among the header fields")
        }
        // libcurl counts whole milliseconds.
        let isLate =
            code == CURLE_OPERATION_TIMEDOUT && start.duration(to: .now) >= .seconds(seconds) - .milliseconds(2)
        throw error(
            code, isLate: isLate, reason[0] == 0 ? String(cString: curl_easy_strerror(code)) : String(cString: reason))
    }

    private static func of(_ context: UnsafeMutableRawPointer?) -> PageTransfer {
        guard let context else { preconditionFailure("libcurl has the context") }
        return Unmanaged.fromOpaque(context).takeUnretainedValue()
    }

    private func error(_ code: CURLcode, isLate: Bool, _ reason: String) -> PageError {
        let end = byteCount > 0 ? " after \(byteCount) bytes, and nothing of it is used" : ""
        let text = "\(url.absoluteString) could not be read\(end)"
        if isLate { return PageError("\(text): it took longer than --timeout allows.") }
        // Another attempt would end in the same way.
        let isPermanent = [
            CURLE_UNSUPPORTED_PROTOCOL, CURLE_URL_MALFORMAT, CURLE_WEIRD_SERVER_REPLY, CURLE_BAD_CONTENT_ENCODING,
            CURLE_WRITE_ERROR, CURLE_PEER_FAILED_VERIFICATION,
        ].contains(code)
        let cause =
            switch code {
            case CURLE_OPERATION_TIMEDOUT: "no bytes came in the time of --request-timeout"
            // libcurl stops at bytes after the end of a gzip member.
            case CURLE_WRITE_ERROR: "it goes on after the end of its Content-Encoding"
            default: reason
            }
        return PageError("\(text): \(cause).", isTemporary: !isPermanent)
    }

    // MARK: - What libcurl calls; false ends the transfer

    private func takeField(_ bytes: UnsafeRawBufferPointer) -> Bool {
        fieldBytes += bytes.count
        guard fieldBytes <= Self.mostFieldBytes else {
            return stop(
                "\(url.absoluteString) was answered with more than \(Self.mostFieldBytes) bytes of header fields.")
        }
        let line = String(decoding: bytes, as: UTF8.self)
        let text = line.trimmingCharacters(in: .whitespacesAndNewlines)
        if line.hasPrefix("HTTP/") {
            status = text.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
            (fields, lastField, hasAllFields) = ([:], "", false)
        } else if text.isEmpty {
            hasAllFields = true
        } else if line.first == " " || line.first == "\t" {
            fields[lastField]? += " " + text
        } else if let colon = text.firstIndex(of: ":") {
            lastField = text[..<colon].lowercased()
            let value = text[text.index(after: colon)...].trimmingCharacters(in: .whitespaces)
            fields[lastField] = fields[lastField].map { "\($0), \(value)" } ?? value
        }
        return true
    }

    private func take(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard Self.withBody.contains(status) else { return false }
        byteCount += bytes.count
        do throws(UnnamedFile.Failure) {
            guard mayGoOn(0, curl_off_t(byteCount)) else { return false }
            let file = if let body { body } else { try UnnamedFile() }
            body = file
            try file.append(bytes)
            return true
        } catch {
            return stop(error.description)
        }
    }

    /// - Parameters:
    ///   - total: bytes of the body as the server announces them; 0 when it does not.
    ///   - received: bytes of the body, packed or unpacked.
    private func mayGoOn(_ total: curl_off_t, _ received: curl_off_t) -> Bool {
        guard max(Self.withBody.contains(status) ? total : 0, received) > maximumBytes else { return true }
        return stop("\(url.absoluteString) has more than \(maximumBytes) bytes; --max-bytes allows more.")
    }

    private func stop(_ reason: String) -> Bool {
        failure = PageError(reason)
        return false
    }
}
