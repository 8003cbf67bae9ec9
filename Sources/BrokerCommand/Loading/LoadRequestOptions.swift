import ArgumentParser
import BrokerCommandLine
import BrokerJSON
import BrokerPages
import Foundation

/// How the pages of a load are requested.
struct LoadRequestOptions: ParsableArguments {
    @Option(
        name: .customLong("next"),
        help: ArgumentHelp(
            """
            Where in a page the URL of the next one is: keys with dots between them, or a JSON Pointer. Default: the \
            `Link` field of the response, with rel="next".
            """, valueName: "path"))
    var nextPath: String?

    @Option(
        help: ArgumentHelp(
            "With --next: the value is no URL but a cursor, which this item of the query takes.", valueName: "name"))
    var nextParameter: String?

    @Flag(
        help: """
            A page without the URL of the next one is the last one, also where something else in it names another page: \
            without this, such a page is a warning, and --sync deletes nothing.
            """)
    var lastPage = false

    @Option(
        help: ArgumentHelp(
            "The maximum number of pages; the rest is not loaded. Default: 10000, and more are an error.",
            valueName: "count"))
    var maxPages: Int?

    @Option(
        name: .customLong("header"), parsing: .singleValue,
        help: ArgumentHelp(
            """
            A field of each request, such as 'Accept: text/csv'. @FILE reads them from a file, one on each line, so that \
            other users do not see a token. No other host than the URL's is sent these. May be repeated.
            """, valueName: "field"), completion: .file())
    var headers: [String] = []

    @Option(
        help: ArgumentHelp(
            "How often a page is requested again after 429, 502, 503, 504 or an error of the connection.",
            valueName: "count"))
    var retries = 5

    @Option(
        help: ArgumentHelp(
            "The longest wait before a page is requested again; a server that asks for more fails the load.",
            valueName: "time"))
    var maxWait = TimeSpan.seconds(300)

    @Option(help: ArgumentHelp("The maximum bytes of a page, packed and unpacked.", valueName: "size"))
    var maxBytes = ByteSize(256 << 20)

    @Option(
        help: ArgumentHelp(
            "How long to wait for the next bytes of a page. --timeout is for all of them; without it, 10 minutes.",
            valueName: "time"))
    var requestTimeout = TimeSpan.seconds(60)

    @Flag(help: "Load all pages, also those that have not changed since they were committed.")
    var fresh = false

    private static let defaultMaxPages = 10_000
    private static let defaultTimeout = TimeSpan.seconds(600)
    private static let largestHeaderFile = 64 << 10

    var pageLimit: Int { maxPages ?? Self.defaultMaxPages }

    mutating func validate() throws {
        try [
            NumberOption("--max-pages", pageLimit, in: 1...10_000_000),
            NumberOption("--retries", retries, in: 0...1_000),
            NumberOption("--max-wait", maxWait, in: .seconds(0)...TimeSpan.seconds(86_400)),
            NumberOption("--max-bytes", maxBytes, in: 1...ByteSize(1 << 40)),
            NumberOption("--request-timeout", requestTimeout, in: .seconds(1)...TimeSpan.seconds(86_400)),
        ].check()
        if nextPath == nil, nextParameter != nil {
            throw ValidationError("--next-parameter takes the value that --next leads to; give --next, too.")
        }
    }

    var next: NextPage? { nextPath.map { NextPage(path: $0, parameter: nextParameter) } }

    /// - Parameter timeout: of a page.
    func options(for url: URL, timeout: TimeSpan?) throws(CommandFailure) -> PageClient.Options {
        var lines: [String] = []
        for header in headers {
            lines += header.hasPrefix("@") ? try Self.lines(ofFile: String(header.dropFirst())) : [header]
        }
        do throws(PageError) {
            return PageClient.Options(
                headers: try PageHeaders(lines, for: url),
                retries: RetryPolicy(retries: retries, longestWait: maxWait.exactSeconds),
                maximumBytes: maxBytes.bytes, idleSeconds: requestTimeout.exactSeconds,
                pageSeconds: (timeout ?? Self.defaultTimeout).exactSeconds)
        } catch {
            throw CommandFailure(.usage, error.description)
        }
    }

    private static func lines(ofFile path: String) throws(CommandFailure) -> [String] {
        let text = try JSONText.file(path, limit: largestHeaderFile)
        guard text.count <= largestHeaderFile else {
            throw CommandFailure(.failed, "\(path) is too large for header fields.")
        }
        return String(decoding: text.bytes, as: UTF8.self).split(whereSeparator: \.isNewline).map(String.init)
    }
}
