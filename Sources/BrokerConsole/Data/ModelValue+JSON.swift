import Broker
import BrokerJSON
import BrokerModel

/// Values of the server's answers: they keep the order of members and the digits of numbers.
extension ModelValue {
    static let null = ModelValue(.null, at: .unknown)

    init(_ json: RawJSON) throws(JSONError) { try self.init(parsing: JSONText(copying: json.bytes)) }

    var int: Int? { int64.map(Int.init) }

    /// A text as it is; another value as JSON.
    var shown: String { string ?? json }

    var json: String {
        var writer = JSONWriter()
        write(to: &writer)
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}
