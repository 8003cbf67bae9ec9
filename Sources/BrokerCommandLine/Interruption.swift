internal import Dispatch
internal import Glibc

/// Catches SIGINT and SIGTERM, so that a program can say how far it came before it ends.
package final class Interruption: Sendable {
    private static let signals = [SIGINT, SIGTERM]

    // Made and resumed in init, cancelled in deinit, touched by nobody else.
    nonisolated(unsafe) private let sources: [any DispatchSourceSignal]

    /// - Parameter act: called with the first signal, on a thread that may wait. The process ends behind it, with the
    ///   status that shells give a program that a signal ended; with a second signal it ends at once.
    package init(_ act: @escaping @Sendable () -> Void) {
        // One after the other, so that a second signal is not taken for the first.
        let arrivals = DispatchQueue(label: "signals")
        let isActing = DispatchSemaphore(value: 1)
        sources = Self.signals.map { number in
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: arrivals)
            source.setEventHandler {
                guard isActing.wait(timeout: .now()) == .success else { _exit(128 + number) }
                DispatchQueue.global().async {
                    act()
                    _exit(128 + number)
                }
            }
            source.resume()
            return source
        }
    }

    deinit {
        for source in sources { source.cancel() }
        // From now on they end the process, as ever.
        for number in Self.signals { signal(number, SIG_DFL) }
    }
}
