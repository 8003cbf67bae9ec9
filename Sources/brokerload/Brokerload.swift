import ArgumentParser
import BrokerCommandLine
import BrokerLoad
import BrokerModel
import Glibc

@main
struct Brokerload: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "brokerload",
        abstract: "Loads a brokerd, and measures it, and the same work without Broker.",
        discussion: """
            \(ExitStatus.explanation([.success, .failed, .usage, .rejected, .cannotConnect]))
            \(OptionUnits.explanation)
            """,
        version: BrokerVersion.text,
        subcommands: [
            RunCommand.self, BaselineCommand.self, RecordsCommand.self, ModelCommand.self,
        ],
        defaultSubcommand: RunCommand.self)

    static func main() async { await Program.run(Brokerload.self) }
}

/// Runs what may throw a ``LoadError``, and ends the program as that error asks for.
func reporting<Result>(_ body: () throws(LoadError) -> Result) throws(CommandFailure) -> Result {
    do throws(LoadError) {
        return try body()
    } catch {
        switch error.code {
        case .usage: throw CommandFailure(.usage, error.message)
        case .cannotConnect: throw CommandFailure(.cannotConnect, error.message)
        case .failed: throw CommandFailure(.failed, error.message)
        }
    }
}

extension RecordShape: ExpressibleByArgument {}
extension RecordKeys: ExpressibleByArgument {}
extension RecordKeyOrder: ExpressibleByArgument {}
