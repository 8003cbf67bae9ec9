internal import BrokerStaging
internal import BrokerStore
internal import Logging

/// The one thread that writes: it opens the store, and merges what is ready, in order, many jobs to a COMMIT.
///
/// It never waits for a timer: whatever is ready when it looks goes into one transaction, and while that is being made
/// durable the next jobs become ready.
final class Writer: Sendable {
    private let thread: Thread
    /// What opening the store changed.
    let migration: StoreMigration
    /// Finds the lines of jobs in the ledger.
    let jobs: JobIndex

    /// Opens the store on the new thread and waits for that.
    ///
    /// - Throws: ``StoreError``; the thread has then ended.
    init(
        plan: StagingPlan, options: CoordinatorOptions, flight: Monitor<Flight>, statistics: Statistics,
        completions: SerialThread, logger: Logger
    ) throws(StoreError) {
        let opened = Monitor<Result<Opened, StoreError>?>(nil)
        thread = Thread(named: "writer") {
            do throws(StoreError) {
                let store = try Store(path: options.storePath, plan: plan, options: options.store)
                // Durable before anybody can be told one of them.
                let block = options.limits.sequenceBlock
                let sequence = try store.openSequences(block)
                flight.withLock { $0 = Flight(after: sequence, reservedThrough: sequence + block) }
                let log = store.log
                let told = Opened(migration: store.migration, jobs: store.jobs)
                statistics.count { $0.log = log }
                opened.broadcast {
                    $0 = .success(told)
                    return true
                }
                var loop = WriterLoop(
                    store: store, flight: flight, statistics: statistics, completions: completions,
                    limits: options.limits, logger: logger)
                loop.run()
            } catch {
                opened.broadcast {
                    $0 = .failure(error)
                    return true
                }
            }
        }
        do throws(StoreError) {
            let told = try opened.wait { $0 }.get()
            (migration, jobs) = (told.migration, told.jobs)
        } catch {
            thread.join()
            throw error
        }
    }

    private struct Opened: Sendable {
        let migration: StoreMigration
        let jobs: JobIndex
    }

    /// Waits for the end of the thread, which comes after `Flight.isStopped`.
    func join() { thread.join() }
}
