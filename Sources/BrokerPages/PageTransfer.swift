internal import BrokerInput
internal import CCurl
internal import Foundation

/// One request and its response, whose body goes into a file as it arrives. Belongs to one thread.
final class PageTransfer {
    private let url: URL
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

    init(_ url: URL, maximumBytes: Int) {
        self.url = url
        self.maximumBytes = maximumBytes
    }

    /// Sends the request, and reads the response; a body only of status 200.
    ///
    /// - Parameters:
    ///   - lines: the fields of the request.
    ///   - idleSeconds: without any byte.
    ///   - seconds: for all of it.
    /// - Throws: when there is no whole response.
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
        guard code != CURLE_OK, code != CURLE_WRITE_ERROR || status == 200 else {
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
        guard status == 200 else { return false }
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
        guard max(status == 200 ? total : 0, received) > maximumBytes else { return true }
        return stop("\(url.absoluteString) has more than \(maximumBytes) bytes; --max-bytes allows more.")
    }

    private func stop(_ reason: String) -> Bool {
        failure = PageError(reason)
        return false
    }
}
