import Broker
import BrokerClient
import Foundation
import Hummingbird
import Logging
import ServiceLifecycle

/// An HTTP service that stores JSON with Broker.
///
///     POST /import/Employee?id=load-7    a record or an array of records; sent again with its id, it takes effect once
///     GET  /employees/7
///     GET  /health                       200 while the client is connected to the server, 503 otherwise
@main struct HTTPService {
    static func main() async throws {
        let environment = ProcessInfo.processInfo.environment
        let logger = Logger(label: "service")
        let socket = environment["BROKER_SOCKET"] ?? "/run/broker/broker.sock"
        let broker = BrokerClient(.unixSocket(socket), configuration: .init(name: "service"), logger: logger)
        let health = ConnectionHealth(broker)
        let port = environment["PORT"].flatMap(Int.init) ?? 8080
        let app = Application(
            router: router(broker, health), configuration: .init(address: .hostname("127.0.0.1", port: port)),
            logger: logger)
        // A graceful shutdown ends the last one first: requests end before the client that they use.
        let services = ServiceGroup(
            services: [broker, health, app], gracefulShutdownSignals: [.sigterm, .sigint], logger: logger)
        try await services.run()
    }

    /// - Parameter broker: a `BrokerClient`, or an `EmbeddedBroker` in a test.
    static func router(_ broker: some BrokerProtocol, _ health: ConnectionHealth) -> Router<BasicRequestContext> {
        let router = Router()
        router.add(middleware: BrokerErrors())
        router.post("import/:entity") { request, context in
            let entity = try context.parameters.require("entity")
            let body = try await request.body.collect(upTo: 16 * 1024 * 1024)
            let id = request.uri.queryParameters["id"].map { JobID(String($0)) }
            let completion = try await broker.process(
                json: Array(body.readableBytesView), as: entity, id: id, timeout: .seconds(20))
            return Imported(completion)
        }
        router.get("employees/:id") { _, context in
            let id = try context.parameters.require("id", as: Int.self)
            guard let employee = try await broker.fetchObject(Employee.self, from: "Employee", key: id) else {
                throw HTTPError(.notFound)
            }
            return employee
        }
        router.get("health") { _, _ in
            let state = health.state
            return Response(
                status: state == .connected ? .ok : .serviceUnavailable,
                body: ResponseBody(byteBuffer: ByteBuffer(string: "\(state)\n")))
        }
        return router
    }
}
