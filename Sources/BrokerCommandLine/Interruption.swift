internal import Dispatch
internal import Glibc

/// Catches SIGINT and SIGTERM, so that a program can report its progress before it ends.
package final class Interruption: Sendable {
    private static let signals = [SIGINT, SIGTERM]

    // Created and resumed in init, cancelled in deinit, not used elsewhere.
    nonisolated(unsafe) private let sources: [any DispatchSourceSignal]

    /// - Parameter act: called with the first signal, on a thread that may wait. The process ends after it, with the
    ///   status that shells give a program that was ended by a signal; a second signal ends it at once.
    package init(_ act: @escaping @Sendable () -> Void) {
        // One after the other, so that a second signal is not mistaken for the first.
        let arrivals = DispatchQueue(label: "signals")
        let isActing = DispatchSemaphore(value: 1)
        let isRegistered = DispatchSemaphore(value: 0)
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
            source.setRegistrationHandler { isRegistered.signal() }
            source.resume()
            // Until then, a signal would be lost.
            isRegistered.wait()
            return source
        }
    }

    deinit {
        for source in sources { source.cancel() }
        // From now on the signals end the process, as by default.
        for number in Self.signals { signal(number, SIG_DFL) }
    }
}
