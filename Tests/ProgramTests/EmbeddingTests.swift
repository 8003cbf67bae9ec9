import Broker
import BrokerClient
import BrokerEmbedded
import Foundation
import Testing

/// The coordinator in a program that is not ours.
@Suite(.timeLimit(.minutes(5))) struct EmbeddingTests {
    private let programs: Programs

    init() throws { programs = try Programs() }

    @Test func `the example of the library's page does what it says, and once`() throws {
        let first = try programs.run("Embedding", [])
        #expect(first.status == 0, "\(first.complaints)")
        #expect(first.output == "inserted 2\nrefused at /json/id: invalidValue\n[\"Grace\"]\n")
        let second = try programs.run("Embedding", [])
        #expect(second.output.hasPrefix("loaded before\n"))
        let names = try FileManager.default.contentsOfDirectory(atPath: programs.folder).filter {
            $0.hasPrefix("staff")
        }
        #expect(names.sorted() == ["staff.sqlite", "staff.sqlite.lock"])
        #expect(try Database(programs.path("staff.sqlite")).rows("SELECT name FROM Employee") == ["Ada", "Grace"])

        let example = try Repository.text(of: "Tests/Embedding/main.swift")
        let page = try Repository.text(of: "Sources/BrokerEmbedded/BrokerEmbedded.docc/Embedding.md")
        #expect(page.contains("```swift\n\(example)```\n"))
    }

    @Test func `the example of handlers does what its page says`() throws {
        let result = try programs.run("Handling", [])
        #expect(result.status == 0, "\(result.complaints)")
        let example = try Repository.text(of: "Tests/Handling/main.swift")
        let page = try Repository.text(of: "protocol/mappings.md")
        #expect(page.contains("```swift\n\(example)```\n\nIt prints\n\n```\n\(result.output)```\n"), "\(result.output)")
    }

    @Test func `a job that a server has applied is known when it is run without one`() async throws {
        let server = try programs.startServer()
        let client = try await BrokerClient.connect(to: .unixSocket(programs.path("broker.sock")))
        let job = Job([.process(json: #"[{"id": 1, "name": "Ada"}]"#, as: "Employee")], id: "load", reply: .keys)
        let first = try await client.process(job)
        client.close()
        kill(server.processIdentifier, SIGTERM)
        server.waitUntilExit()
        let broker = try await EmbeddedBroker.open(
            store: .file(programs.path("store.sqlite")), model: .json(Programs.model))
        let again = try await broker.process(job)
        #expect(again.isDuplicate)
        #expect(again.sequence == first.sequence && again.changes == first.changes && again.keys == first.keys)
        await broker.stop()
    }

    @Test func `a program and a server refuse each other's store by name`() async throws {
        let broker = try await EmbeddedBroker.open(
            store: .file(programs.path("store.sqlite")), model: .json(Programs.model))
        let refused = try programs.run(
            "brokerd", ["--model", "model.json", "--store", "store.sqlite", "--socket", "broker.sock"])
        #expect(refused.status == 1)
        #expect(refused.complaints.contains("process \(getpid())."), "\(refused.complaints)")
        await broker.stop()
        let server = try programs.startServer()
        let error = await #expect(throws: BrokerError.self) {
            try await EmbeddedBroker.open(store: .file(programs.path("store.sqlite")), model: .json(Programs.model))
        }
        #expect(error?.message.contains("process \(server.processIdentifier).") == true)
    }
}
