internal import Foundation
internal import Synchronization
#if canImport(FoundationNetworking)
internal import FoundationNetworking
#endif

/// The transfers of a session. Its queue calls one method at a time.
final class PageTransfers: NSObject, URLSessionDataDelegate, Sendable {
    private let headers: PageHeaders
    /// By the number of its task.
    private let transfers = Mutex<[Int: PageTransfer]>([:])

    init(headers: PageHeaders) { self.headers = headers }

    /// Starts the task, and waits for its end.
    func finish(_ task: URLSessionDataTask, _ url: URL, maximumBytes: Int) async throws -> Page {
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let transfer = PageTransfer(url, maximumBytes: maximumBytes, continuation)
                transfers.withLock { $0[task.taskIdentifier] = transfer }
                task.resume()
            }
        } onCancel: {
            task.cancel()
        }
    }

    func urlSession(
        _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
        newRequest request: URLRequest, completionHandler: @escaping @Sendable (URLRequest?) -> Void
    ) {
        let isAllowed = transfers.withLock { $0[task.taskIdentifier]?.redirect() ?? false }
        // Foundation gives a target of another scheme the one of the request.
        let target = response.value(forHTTPHeaderField: "Location")
            .flatMap { URL(string: $0, relativeTo: response.url)?.absoluteURL }
        guard isAllowed, let url = target, (try? PageClient.check(url)) != nil else {
            // The redirection itself becomes the response, which is none that can be used.
            return completionHandler(nil)
        }
        var next = URLRequest(url: url)
        for (name, value) in task.originalRequest?.allHTTPHeaderFields ?? [:] {
            next.setValue(value, forHTTPHeaderField: name)
        }
        if let first = task.originalRequest?.url {
            for (name, _) in headers.fields(for: first) { next.setValue(nil, forHTTPHeaderField: name) }
        }
        for (name, value) in headers.fields(for: url) { next.setValue(value, forHTTPHeaderField: name) }
        completionHandler(next)
    }

    func urlSession(
        _ session: URLSession, dataTask: URLSessionDataTask, didReceive response: URLResponse,
        completionHandler: @escaping @Sendable (URLSession.ResponseDisposition) -> Void
    ) {
        let goesOn = transfers.withLock { $0[dataTask.taskIdentifier]?.begin(response) ?? false }
        completionHandler(goesOn ? .allow : .cancel)
    }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        let goesOn = transfers.withLock { $0[dataTask.taskIdentifier]?.append(data) ?? false }
        if !goesOn { dataTask.cancel() }
    }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        let transfer = transfers.withLock { $0.removeValue(forKey: task.taskIdentifier) }
        transfer?.end(error)
    }
}
