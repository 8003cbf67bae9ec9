import Broker
import BrokerClient
import BrokerEmbedded
import Testing

/// The code of the articles *Delivery and ids* and *Errors and what to do*, run.
@Suite(.timeLimit(.minutes(5))) struct DeliverySnippets {
    struct Employee: Codable {
        var id: Int, name: String
    }

    struct Department: Codable {
        var id: Int, name: String
    }

    private let employees = [Employee(id: 1, name: "Ada"), Employee(id: 2, name: "Grace")]

    private func withBroker(_ body: (EmbeddedBroker) async throws -> Void) async throws {
        try await withTemporaryBroker(model: .json(Programs.model), body)
    }

    @Test func `a job is applied once under its id`() async throws {
        try await withBroker { broker in
            let first = try await broker.process(employees, as: "Employee", id: "staff.json@2026-11-25")
            let again = try await broker.process(employees, as: "Employee", id: "staff.json@2026-11-25")
            print(first.isDuplicate, again.isDuplicate, first.sequence == again.sequence)  // false true true
            #expect(!first.isDuplicate && again.isDuplicate && first.sequence == again.sequence)

            do {
                let completion = try await broker.completion(of: "staff.json@2026-11-25")
                print("applied as job \(completion.sequence)")
            } catch let error as BrokerError where error.code == .unknownJob {
                print("it never arrived, or its outcome is forgotten: send it")
            }
        }
    }

    private struct Queue {
        let offsets: [String]

        func messages(after last: String?) -> [(offset: String, body: String)] {
            offsets.filter { $0 > last ?? "" }.map { ($0, "{\"id\": \($0)}") }
        }
    }

    @Test func `a consumer continues after the bookmark of its last job`() async throws {
        try await withBroker { broker in
            for (offsets, bookmark) in [(["1", "2"], "2"), (["1", "2", "3"], "3")] {
                let queue = Queue(offsets: offsets)
                let last = try await broker.bookmark(named: "staff queue")?.value
                for message in queue.messages(after: last) {
                    var job = Job(
                        .process(json: message.body, as: "Employee"), id: JobID("staff queue \(message.offset)"))
                    job.bookmark = Job.Bookmark("staff queue", message.offset)
                    try await broker.process(job)
                }
                #expect(try await broker.bookmark(named: "staff queue")?.value == bookmark)
            }
            #expect(try await broker.statistics().objects.inserted == 3)
        }
    }

    func store(_ employees: [Employee], id: JobID, by broker: some BrokerService) async throws -> Completion {
        while true {
            do {
                return try await broker.process(employees, as: "Employee", id: id)
            } catch let error as BrokerError where error.isOutcomeUnknown || error.code == .busy {
                try await Task.sleep(for: error.retryAfter ?? .seconds(1))
            }
        }
    }

    @Test func `a job whose outcome is unknown is sent again`() async throws {
        let programs = try Programs()
        let server = try programs.startServer()
        var configuration = RemoteBroker.Configuration()
        configuration.answerTimeout = .milliseconds(200)
        let broker = RemoteBroker(.unixSocket(programs.path("broker.sock")), configuration: configuration)
        try await broker.administer(.pause)
        let stored = Task { try await store(employees, id: "load", by: broker) }
        // The client gives up the first attempt, whose outcome is unknown.
        for await state in broker.connectionStates where state == .idle { break }
        try await RemoteBroker.connect(to: .unixSocket(programs.path("broker.sock"))).administer(.resume)
        #expect(try await stored.value.changes["Employee"]?.inserted == 2)
        #expect(try await broker.statistics().objects.inserted == 2)
        withExtendedLifetime(server) {}
    }

    @Test func `many jobs are sent at once, in order`() async throws {
        let batches = employees.map { [$0] }
        try await withBroker { broker in
            var jobs: [SubmittedJob] = []
            for (number, batch) in batches.enumerated() {
                let job = Job(try .process(batch, as: "Employee"), id: JobID("load-7/\(number)"))
                jobs.append(try await broker.submit(job))
            }
            for job in jobs { _ = try await job.completion }
            #expect(jobs.map(\.sequence) == [1, 2])
        }
    }

    @Test func `operations of a job take effect together`() async throws {
        try await withBroker { broker in
            try await broker.process(
                json: #"{"id": 1, "name": "Ada", "department": {"id": 7, "name": "R&D"}}"#, as: "Employee")
            let move = Job(
                [
                    try .process(Department(id: 8, name: "Research"), as: "Department"),
                    try .set("department", of: "Employee", key: 1, to: 8),
                    try .delete("Department", keys: [7]),
                ], id: "reorganisation")
            try await broker.process(move)
            #expect(try await broker.objects(Department.self, from: "Department").collect().map(\.id) == [8])
            #expect(
                try await broker.objects(Employee.self, from: "Employee", where: "department == \(8)").collect().count
                    == 1)

            try await broker.process(employees, as: "Employee", id: "load-8", timeout: .seconds(20))
        }
    }

    @Test func `invalid records are rejected, or fail the job`() async throws {
        let body = #"[{"id": 1, "name": "Ada"}, {"id": "two"}]"#
        let id: JobID = "load"
        var queue: [JobID] = []
        try await withBroker { broker in
            do {
                try await broker.process(json: body, as: "Employee", id: id)
            } catch let error as BrokerError {
                switch error.code {
                case .busy, .outcomeUnknown: queue.append(id)  // send it again later, under the same id
                case .invalidJSON, .invalidValue, .missingValue: print("\(error.fault?.path ?? ""): \(error.message)")
                default: throw error
                }
            }
            #expect(queue.isEmpty)

            let completion = try await broker.process(json: body, as: "Employee", onInvalid: .skip)
            for rejection in completion.rejections { print(rejection.path ?? "", rejection.message) }
            #expect(completion.rejections.map(\.path) == ["/json/1/id"])
        }
    }
}
