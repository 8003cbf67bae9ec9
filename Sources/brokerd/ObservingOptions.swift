import ArgumentParser
import BrokerCommandLine

/// The log and the measurements.
struct ObservingOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            """
            The form of the log on standard error: text, json (an object in each line), or journald (the priority as \
            sd-daemon(3) has it, and no time). Default: journald when standard error is the journal, else text.
            """, valueName: "format"))
    var logFormat: LogFormat?

    @Option(
        help: ArgumentHelp(
            "Log each job that takes that long from its frame to the COMMIT, with its stages; 0 logs none.",
            valueName: "time"))
    var slowJob = TimeSpan.seconds(0)

    @Option(
        help: ArgumentHelp(
            """
            Write the measurements there every 15 seconds, in Prometheus' text format, for node_exporter's textfile \
            collector: FOLDER/broker.prom
            """, valueName: "file"), completion: .file())
    var metricsFile: String?

    var format: LogFormat { logFormat ?? .detected }

    /// Nil when slow jobs are not logged.
    var slowJobMicroseconds: Int64? {
        slowJob > .seconds(0) ? Int64(slowJob.duration / .microseconds(1)) : nil
    }
}
