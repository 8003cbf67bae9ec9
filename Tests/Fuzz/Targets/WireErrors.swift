import BrokerJSON
import BrokerWire

/// The maximum bytes of an `error` message, a tag and an id included: any client can cause one.
private let longestError = 8_192

/// The text for the client: one sentence of Broker's, in JSON, whatever was sent.
func requireSound(_ refused: WireError) throws {
    let encoded = refused.encoded()
    try require(encoded.count <= longestError, "an error message has \(encoded.count) bytes")
    let document: JSONDocument
    do {
        document = try JSONDocument(parsing: JSONText(copying: encoded))
    } catch {
        throw FuzzFinding(description: "an error message is no JSON: \(error)")
    }
    let body = document.root["error"]
    try require(body?["code"]?.string == refused.code.rawValue, "an error message has not its code")
    try require(body?["message"]?.string?.isEmpty == false, "an error message says nothing")
}
