internal import BrokerFastJSON
package import BrokerJSON
package import BrokerWire

extension ClientEnvelope {
    /// Parses a content and reads its message: first strictly; trailing commas are accepted if the message asks for
    /// that. Blocking work, by the size of the content.
    ///
    /// - Parameter allowance: asked for the memory of the tape and of the operations.
    package static func decode(
        parsing content: JSONText, allowance: any MemoryAllowance
    ) throws(FrameRefusal) -> ClientEnvelope {
        let strict = Result { () throws(JSONRefusal) in try JSONDocument(fast: content, allowance: allowance) }
        switch strict {
        case .success(let document): return try decode(document, allowance: allowance)
        case .failure(.noRoom): throw .noRoom
        case .failure(.fault(let error)):
            guard let lenient = try lenientDocument(content, allowance) else {
                throw .fault(WireError(error, in: content))
            }
            return try decode(lenient, allowance: allowance)
        }
    }

    private static func lenientDocument(
        _ content: JSONText, _ allowance: any MemoryAllowance
    ) throws(FrameRefusal) -> JSONDocument? {
        // The corrected copy, and the memory for making it.
        guard allowance.take(content.count * 2) else { throw .noRoom }
        guard let lenient = content.blankingTrailingCommas() else {
            allowance.giveBack(content.count * 2)
            return nil
        }
        allowance.giveBack(content.count)
        let parsed = Result { () throws(JSONRefusal) in try JSONDocument(fast: lenient, allowance: allowance) }
        switch parsed {
        case .success(let document): return document.root["lenient"]?.bool == true ? document : nil
        case .failure(.noRoom): throw .noRoom
        // A text that is not even lenient JSON is reported by its first strict error.
        case .failure(.fault): return nil
        }
    }
}
