import Foundation
import Testing

/// The client of `protocol/guides/clients.md`, run against a server.
@Suite(.timeLimit(.minutes(5))) struct PythonClientTests {
    private let programs: Programs

    init() throws {
        programs = try Programs()
        let blocks = try Repository.codeBlocks(of: "protocol/guides/clients.md").filter { $0.language == "python" }
        let client = try #require(blocks.first { $0.text.contains("class Broker:") }?.text)
        let paging = try #require(blocks.first { $0.text.hasPrefix("def fetch(") }?.text)
        #expect(client.split(separator: "\n", omittingEmptySubsequences: false).count <= 100)
        try programs.write(client + paging, to: "broker.py")
    }

    /// Runs statements of Python that use the client, and returns the lines that they print.
    private func run(_ statements: String) throws -> [String] {
        let result = try programs.shell("python3 -", input: "from broker import *\n" + statements)
        #expect(result.status == 0, "\(result.complaints)")
        return result.output.split(separator: "\n").map(String.init)
    }

    @Test func `answers find the messages that they belong to`() throws {
        _ = try programs.startServer()
        let lines = try run(
            """
            broker = Broker("broker.sock")
            ada = {"id": "a", "entity": "Employee", "json": {"id": 1, "name": "Ada"}}
            jobs = [ada, {"id": "b", "entity": "Employee", "json": {"id": "one"}},
                    {"id": "c", "entity": "Employee", "json": {}, "onInvalid": "perhaps"}, ada]
            for answer in sorted(broker.run(jobs), key=lambda answer: answer["tag"]):
                print(answer["type"], answer["id"], answer.get("duplicate") or answer.get("error", {}).get("code"))
            broker.write = lambda tag: (broker.sent.append(tag), broker.socket.sendall(b"{}"))
            answer = broker.receive() if broker.send({"type": "ping"}) else None
            print(answer["error"]["code"], answer["tag"])
            """)
        #expect(
            lines == [
                "completed a None", "failed b invalidValue", "error c unsupportedMessage", "completed a True",
                "malformedFrame 5",
            ])
    }

    @Test func `pages of a fetch neither skip nor repeat objects`() throws {
        _ = try programs.startServer()
        let lines = try run(
            """
            broker = Broker("broker.sock")
            list(broker.run([{"entity": "Employee", "json": [{"id": n, "name": str(n)} for n in range(1, 8)]}]))
            objects = fetch(broker, {"entity": "Employee", "where": "name != %@", "arguments": ["3"], "limit": 2})
            print(next(objects)["id"])
            list(broker.run([{"op": "delete", "entity": "Employee", "objects": [1, 2]}]))
            print([object["id"] for object in objects])
            """)
        #expect(lines == ["1", "[2, 4, 5, 6, 7]"])
    }

    @Test func `pages continue after a key with all its digits, and after a compound one`() throws {
        try programs.write(
            """
            {"entities": {
              "Price": {"identity": "amount", "attributes": {"amount": "decimal"}},
              "Seat": {"identity": ["row", "number"], "attributes": {"row": "string", "number": "double"}}}}
            """, to: "model.json")
        _ = try programs.startServer()
        let lines = try run(
            """
            broker = Broker("broker.sock")
            amounts = [decimal.Decimal(f"0.1234567890123456789{n}") for n in range(1, 6)]
            seats = [{"row": row, "number": number} for row in "ab" for number in (1.5, 2, 10)]
            list(broker.run([{"entity": "Price", "json": [{"amount": amount} for amount in amounts]},
                             {"entity": "Seat", "json": seats}]))
            print([price["amount"] for price in fetch(broker, {"entity": "Price", "limit": 1})] == amounts)
            print([(seat["row"], float(seat["number"])) for seat in fetch(broker, {"entity": "Seat", "limit": 2})])
            """)
        #expect(
            lines == [
                "True", "[('a', 1.5), ('a', 2.0), ('a', 10.0), ('b', 1.5), ('b', 2.0), ('b', 10.0)]",
            ])
    }

    @Test func `after a lost connection jobs are sent again and take effect once, and a cancel is not`() throws {
        let server = try programs.startServer()
        let lines = try run(
            """
            import os, signal
            broker = Broker("broker.sock")
            frames = []

            def lose_connection(*messages):
                # A server that has stopped answers nothing before the connection is lost.
                os.kill(\(server.processIdentifier), signal.SIGSTOP)
                for message in messages:
                    broker.send(message)
                broker.socket.shutdown(socket.SHUT_RDWR)
                os.kill(\(server.processIdentifier), signal.SIGCONT)

            write, broker.write = broker.write, lambda tag: (frames.append(broker.unanswered[tag][1]), write(tag))
            lose_connection(*({"id": f"job-{n}", "entity": "Employee", "json": {"id": n}} for n in range(3)))
            print([broker.receive()["id"] for _ in range(3)], frames[:3] == frames[3:])
            lose_connection({"type": "cancel", "id": "job-1"})
            try:
                broker.receive()
            except ConnectionError as error:
                print(error, len(broker.unanswered))
            print(broker.ask({"type": "stats"})["objects"]["inserted"])
            """)
        #expect(
            lines == [
                "['job-0', 'job-1', 'job-2'] True", "The connection was lost before the answer came. 0", "3",
            ])
    }
}
