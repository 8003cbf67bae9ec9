import BrokerJSON
import BrokerWire

/// Bytes that no `error` message may exceed, a tag and an id included: it answers whoever sent anything.
private let longestError = 8_192

/// What is told to the other side: one sentence of ours, in JSON, whatever was sent.
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
