import BrokerClient
import Logging
import ServiceLifecycle

struct Account: Codable, BrokerRecord {
    static let entity = "Account"
    var id: Int, owner: String, balance: Int
}

struct Payments: Service {
    let broker: RemoteBroker, logger: Logger

    func run() async throws {
        try await broker.check(Account.self)  // the type fits the server's model
        try await broker.process([Account(id: 1, owner: "Ada", balance: 100)], id: "opening")  // applied once
        let payment = try Job.Operation.increment(Account.self, key: 1, by: ["balance": -70])
        do {
            try await broker.process(Job(payment.expecting(.matching("balance >= \(70)")), id: "payment-7"))
        } catch let error as BrokerError where error.code == .conflict {
            logger.notice("Not paid: \(error)")
        }
        for try await commit in broker.commits(of: [Account.self], after: 0).cancelOnGracefulShutdown() {
            for try await account in broker.objects(Account.self, where: "balance < \(100)", sort: "-balance") {
                logger.info("Commit \(commit.sequence): \(account.owner) has \(account.balance)")
            }
        }
    }
}

let logger = Logger(label: "payments")
let broker = RemoteBroker(.unixSocket("broker.sock"), logger: logger)
let services: [any Service] = [broker, Payments(broker: broker, logger: logger)]
try await ServiceGroup(services: services, gracefulShutdownSignals: [.sigterm], logger: logger).run()
