package import BrokerModel
package import BrokerWire

extension FetchDescription {
    package init(_ message: FetchMessage) {
        self.init(entity: message.entity)
        predicate = message.condition
        arguments = message.arguments
        object = message.object
        after = message.after
        sort = message.sort
        limit = message.limit
        offset = message.offset
        include = message.include
        select = message.select
        names = message.names == .remote ? .remote : .local
        dates = message.dates == .model ? .model : .iso8601
        result =
            switch message.result {
            case .collection: .collection
            case .object: .object
            case .dictionary: .dictionary
            case .count: .count
            }
        isStreamed = message.isStreamed
    }
}
