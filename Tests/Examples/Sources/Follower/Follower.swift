import Broker
import BrokerClient
import Foundation

/// Keeps an index of the employees' names beside a store, in a file.
///
///     Follower SOCKET FILE
///
/// The file has the index and the sequence of the newest commit in it, and is replaced as a whole. So a follower that was killed at
/// any moment goes on where its file is.
@main struct Follower {
    static func main() async throws {
        let arguments = CommandLine.arguments
        guard arguments.count == 3 else { fatalError("usage: Follower SOCKET FILE") }
        let file = URL(filePath: arguments[2])
        try await withBrokerClient(.unixSocket(arguments[1]), configuration: .init(name: "follower")) { broker in
            while true {
                do {
                    try await follow(broker, keeping: file)
                } catch let error as BrokerError where error.code == .gone {
                    // The follower was away for too long, or the store is another one: begin again.
                    try FileManager.default.removeItem(at: file)
                } catch let error as BrokerError where [.connectionLost, .cannotConnect].contains(error.code) {
                    // The server went while objects were fetched, or is away for long: go on where the file is.
                    print(error)
                }
            }
        }
    }

    static func follow(_ broker: some BrokerProtocol, keeping file: URL) async throws {
        var index = try NameIndex(file)
        for try await commit in broker.commits(of: ["Employee"], after: index.position) {
            if index.position == nil {
                // The first commit of a feed without a position says where it begins.
                try await index.replaceAll(by: broker)
            } else if !commit.changes.isEmpty {
                try await index.apply(commit, by: broker)
            }
            index.position = commit.sequence
            try index.write(to: file)
        }
    }
}
