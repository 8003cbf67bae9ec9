import Foundation
import TestSupport
import Testing

/// A few rounds of `scripts/crashtest`, which runs more of them by hand.
@Suite(.timeLimit(.minutes(10))) struct CrashTests {
    @Test func `kills of the server and of its clients lose nothing and double nothing`() throws {
        let programs = try Programs()
        // The files of a failure stay for inspection.
        let result = try programs.shell(
            "exec timeout \(10 * Patience.seconds) \(programs.executable("CrashTest").path) \(Cases.count(1, of: 3))")
        print(result.output)
        #expect(result.status == 0, "\(result.output)\(result.complaints)")
    }
}
