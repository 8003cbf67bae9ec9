import ArgumentParser
import BrokerCommandLine

/// The log.
struct ObservingOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            """
            The form of the log on standard error: text, json (an object in each line), or journald (the priority as \
            sd-daemon(3) has it, and no time). Default: journald when standard error is the journal, else text.
            """, valueName: "format"))
    var logFormat: LogFormat?

    var format: LogFormat { logFormat ?? .detected }
}
