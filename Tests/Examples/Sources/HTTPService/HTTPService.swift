import Broker
import BrokerClient
import Foundation
import Hummingbird
import Logging
import ServiceLifecycle
import Synchronization

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
        let broker = RemoteBroker(.unixSocket(socket), configuration: .init(name: "service"), logger: logger)
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

    /// - Parameter broker: a `RemoteBroker`, or an `EmbeddedBroker` in a test.
    static func router(_ broker: some BrokerService, _ health: ConnectionHealth) -> Router<BasicRequestContext> {
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
            guard let employee = try await broker.fetchObject(Employee.self, key: id) else {
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

struct Employee: ResponseCodable, BrokerRecord {
    static let entity = "Employee"

    var id: Int
    var name: String
}

/// The outcome of the records of a request.
struct Imported: ResponseEncodable {
    var sequence: Int64
    var isDuplicate: Bool
    var inserted: Int
    var updated: Int

    init(_ completion: Completion) {
        sequence = completion.sequence
        isDuplicate = completion.isDuplicate
        inserted = completion.changes.values.reduce(0) { $0 + $1.inserted }
        updated = completion.changes.values.reduce(0) { $0 + $1.updated }
    }
}

/// Answers with the HTTP status that an error of the broker means for the caller.
struct BrokerErrors<Context: RequestContext>: RouterMiddleware {
    func handle(
        _ request: Request, context: Context, next: (Request, Context) async throws -> Response
    ) async throws -> Response {
        do {
            return try await next(request, context)
        } catch let error as BrokerError {
            throw HTTPError(status(of: error), message: "\(error)")
        }
    }

    private func status(of error: BrokerError) -> HTTPResponse.Status {
        switch error.code {
        case .busy, .cannotConnect, .connectionLost, .draining, .closed: .serviceUnavailable
        case .storeFull, .storeUnavailable: .serviceUnavailable
        case .outcomeUnknown, .timedOut: .gatewayTimeout
        case .idConflict, .idInUse: .conflict
        case .tooLarge: .contentTooLarge
        case .invalidJSON, .invalidID: .badRequest
        // A fault of the records.
        case _ where error.fault?.path != nil: .unprocessableContent
        default: .internalServerError
        }
    }
}

/// The newest state of a client's connection.
final class ConnectionHealth: Service {
    private let broker: RemoteBroker
    private let current = Mutex(BrokerConnectionState.idle)

    init(_ broker: RemoteBroker) { self.broker = broker }

    var state: BrokerConnectionState { current.withLock { $0 } }

    func run() async {
        for await state in broker.connectionStates.cancelOnGracefulShutdown() { current.withLock { $0 = state } }
    }
}
