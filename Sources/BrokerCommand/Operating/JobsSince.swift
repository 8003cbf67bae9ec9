import ArgumentParser
import BrokerCommandLine
import Foundation

/// A moment: given as such, or as a time before now.
struct JobsSince: ExpressibleByArgument {
    /// Since 1970.
    let milliseconds: Int64

    init?(argument: String) {
        let now = Date()
        let seconds: Double
        if let span = TimeSpan(argument: argument) {
            seconds = now.timeIntervalSince1970 - span.exactSeconds
        } else if let date = try? Date(argument, strategy: .iso8601) {
            seconds = date.timeIntervalSince1970
        } else {
            return nil
        }
        milliseconds = max(0, Int64(seconds * 1_000))
    }
}
