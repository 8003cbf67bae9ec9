public import Broker

extension BrokerClient {
    public func results(of query: Query) -> QueryResults { .pages(of: query) { [self] in try await fetch($0) } }
}
