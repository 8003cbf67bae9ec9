import Foundation
import Testing

/// The commands of the handbook in `protocol/running.md` work as they are written there, one after the other.
@Suite(.timeLimit(.minutes(5))) struct HandbookTests {
    /// The lines of the handbook's shell blocks.
    private static func commands() throws -> [String] {
        let page = try Repository.text(of: "protocol/running.md")
        let handbook = try #require(page.components(separatedBy: "\n## Handbook\n").last)
        let blocks = handbook.components(separatedBy: "```sh\n").dropFirst()
        return blocks.flatMap { block in
            (block.components(separatedBy: "\n```").first ?? "").components(separatedBy: "\n")
        }
    }

    /// Shell functions in the place of the service manager: they start and end the server of the test.
    private static let manager = """
        set -eu
        start() {
            mkdir -p run
            brokerd --model model.json --store store.sqlite --socket run/broker.sock > ready 2> log & echo $! > pid
            until [ -s ready ]; do kill -0 "$(cat pid)"; sleep 0.02; done
        }
        stop() { kill "$(cat pid)"; wait "$(cat pid)" || true; rm ready; }
        systemctl() { "$1"; }
        trap 'kill "$(cat pid)"' EXIT
        start
        mkdir backups
        echo '[{"id": 1}]' | broker submit --entity Employee > submitted
        """

    @Test func `each command of the handbook works`() throws {
        let programs = try Programs()
        let commands = try Self.commands()
        #expect(commands.count > 8, "the handbook has lost its commands: \(commands)")
        // The time in the example's name is that of no backup; there is one.
        let places = [
            ("/var/lib/broker/backups/store-20261125T020000Z.sqlite", "backups/store-2*Z.sqlite"),
            ("/var/lib/broker", "."), ("/etc/broker", "."), ("/run/broker", "run"),
        ]
        var script = Self.manager + "\n"
        for command in commands {
            var line = command
            for (written, here) in places { line = line.replacingOccurrences(of: written, with: here) }
            script += "echo '== \(command.replacingOccurrences(of: "'", with: ""))'\n\(line)\n"
        }
        let built = programs.executable("broker").deletingLastPathComponent().path
        let result = try programs.shell("PATH=\"\(built):$PATH\"; export BROKER_SOCKET=run/broker.sock\n" + script)
        #expect(result.status == 0, "\(result.output.suffix(500))\n\(result.complaints.suffix(1_000))")
        #expect(result.output.contains("would be forgotten: 0 jobs"), "\(result.output)")
    }
}
