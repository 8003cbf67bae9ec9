extension BrokerClient {
    /// A condition on the objects of an entity, in the protocol's subset of NSPredicate's language. The server checks it.
    ///
    /// ```swift
    /// try BrokerClient.Predicate("department.name == %@ AND age IN %@", "R&D", [30, 40])
    /// ```
    public struct Predicate: Sendable, Equatable {
        public var format: String
        /// The values of `%@` and the names of `%K`, in their order.
        public var arguments: [JSON]

        /// All objects.
        public static let all = Predicate("TRUEPREDICATE", arguments: [])

        public init(_ format: String, arguments: [JSON]) {
            self.format = format
            self.arguments = arguments
        }

        /// - Parameter arguments: values as ``JSON/init(value:)`` takes them: text is text, dates are compared as dates.
        /// - Throws: ``BrokerError/notEncodable(reason:)``
        public init(_ format: String, _ arguments: (any Encodable)?...) throws(BrokerError) {
            try self.init(format, values: arguments)
        }

        init(_ format: String, values: [(any Encodable)?]) throws(BrokerError) {
            self.format = format
            arguments = []
            for value in values {
                guard let value else {
                    arguments.append("null")
                    continue
                }
                arguments.append(try JSON(value: value))
            }
        }
    }
}
