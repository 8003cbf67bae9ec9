internal import ArgumentParser
import BrokerSchema

/// The treatment of parts that a model no longer has.
struct RemovalOptions: ParsableArguments {
    enum Choice: String, EnumerableFlag {
        case keep, drop

        static func help(for choice: Choice) -> ArgumentHelp? {
            switch choice {
            case .keep: "Tables and columns that the model no longer has stay in the file, unused."
            case .drop: "Tables and columns that the model no longer has are dropped, with their values."
            }
        }
    }

    @Flag var choice: Choice?

    var policy: RemovalPolicy {
        switch choice {
        case nil: .refuse
        case .keep: .keep
        case .drop: .drop
        }
    }
}
