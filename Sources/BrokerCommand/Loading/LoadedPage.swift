import BrokerInput
import BrokerPages
import Foundation

/// A page with a body: its records, and what it says of the next one.
struct LoadedPage {
    let page: Page
    let source: RecordSource
    let next: URL?
    /// Nil when there is a next page.
    let further: FurtherPages?

    /// - Parameter root: where the records were found, when --root does not say it.
    init(_ page: Page, _ body: UnnamedFile, of command: LoadCommand, root: RecordRoot?) throws(PageError) {
        guard page.mediaType != "text/html" || command.records.format.type != nil else {
            throw PageError(
                "\(page.url.absoluteString) is a page of HTML, not of records; --type says how to read it all the same."
            )
        }
        self.page = page
        let maximumBytes = command.requests.maxBytes.bytes
        source = command.records.source(of: page, body, root: root, maximumBytes: maximumBytes)
        var envelope: PageEnvelope?
        if let path = command.requests.next {
            let found: PageEnvelope
            do throws(PageError) {
                found = try PageEnvelope(of: body, maximumBytes: maximumBytes, for: path)
            } catch {
                throw PageError("\(page.url.absoluteString): \(error), so --next finds no next page in it.")
            }
            (envelope, next) = (found, try path.url(in: found, of: page.url))
        } else {
            if case .next(let url) = page.link { next = url } else { next = nil }
            // Without a root, an entity's records are the whole of a page; mappings find theirs in it.
            if next == nil, source.format == .json, source.root != nil || command.records.entity == nil {
                // The reader of the records reports what is no JSON.
                envelope = try? PageEnvelope(of: body, maximumBytes: maximumBytes, for: nil)
            }
        }
        further = next == nil ? FurtherPages(page, envelope, root: source.root?.tokens) : nil
    }
}
