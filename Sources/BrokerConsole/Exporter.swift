package import BrokerClient
import BrokerCommandLine
import BrokerFastJSON
import BrokerJSON
import Broker
internal import Synchronization

/// The measurements of one server over HTTP, asked from it at each request: `/metrics` for Prometheus and `/healthz` for probes.
package final class Exporter: Sendable {
    private let client: RemoteBroker
    private let instance: String
    /// The path of the store that the server had when it answered last, so that `broker_up` is one series.
    private let store = Mutex<String?>(nil)

    /// - Parameter instance: the server's name in the measurements.
    package init(_ client: RemoteBroker, instance: String) {
        (self.client, self.instance) = (client, instance)
    }

    /// Serves until the task is cancelled.
    package func run(on address: ListenAddress, whenReady: @escaping @Sendable (_ address: String) async throws -> Void)
        async throws
    {
        try await HTTPService(address) { await self.answer(to: $0) }.run { try await whenReady("http://\($0)/metrics") }
    }

    func answer(to request: Request) async -> Answer {
        guard request.method == .get else { return .text("Only GET is answered.\n", status: 405) }
        switch request.path {
        case ["metrics"]: return .text(await metrics(), "text/plain; version=0.0.4; charset=utf-8")
        case ["healthz"]: return await health(asJSON: request["format"] == "json")
        default: return .text("There are /metrics and /healthz.\n", status: request.path.isEmpty ? 200 : 404)
        }
    }

    private func metrics() async -> String {
        do {
            let document = try JSONDocument(fast: JSONText(copying: try await client.statistics().json.bytes))
            return withExtendedLifetime(document) {
                store.withLock { $0 = document.root["storeFile"]?.string }
                return up(true) + PrometheusText.text(document.root, instance: instance)
            }
        } catch {
            return up(false)
        }
    }

    private func up(_ isUp: Bool) -> String {
        PrometheusText.up(isUp, instance: instance, store: store.withLock { $0 })
    }

    private func health(asJSON isJSON: Bool) async -> Answer {
        let health = await Health { try await client.statistics() }
        let status = health.state == .serving ? 200 : 503
        guard isJSON else { return .text(health.line.printable + "\n", status: status) }
        var writer = JSONWriter()
        writer.object(health.write)
        return Answer(.bytes(writer.bytes + [UInt8(ascii: "\n")]), "application/json", status: status)
    }
}
