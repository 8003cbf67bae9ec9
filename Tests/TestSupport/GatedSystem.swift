internal import BrokerJournal
internal import Foundation

/// A disk on which writes wait while the gate is closed.
// The condition guards the two variables.
package final class GatedSystem: JournalSystem, @unchecked Sendable {
    private let condition = NSCondition()
    private var isClosed = false
    private var isAwaited = false
    private let system = PosixSystem()

    package init() {}

    package func close() { condition.withLock { isClosed = true } }

    package func open() {
        condition.withLock {
            isClosed = false
            condition.broadcast()
        }
    }

    /// Waits until a write waits for the gate.
    package func waitForWriter() {
        condition.withLock {
            while !isAwaited { condition.wait() }
        }
    }

    package func write(_ file: Int32, _ bytes: UnsafeRawBufferPointer, _ offset: Int) -> Int {
        condition.withLock {
            while isClosed {
                isAwaited = true
                condition.broadcast()
                condition.wait()
            }
        }
        return system.write(file, bytes, offset)
    }

    package func sync(_ file: Int32) -> Int32 { system.sync(file) }

    package func truncate(_ file: Int32, _ size: Int) -> Int32 { system.truncate(file, size) }
}
