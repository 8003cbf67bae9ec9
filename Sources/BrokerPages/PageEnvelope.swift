internal import BrokerFastJSON
package import BrokerInput
internal import BrokerJSON

/// The JSON of a page around its records.
package struct PageEnvelope {
    private let document: JSONDocument

    /// - Parameter next: the path of a value that is read in any case.
    /// - Throws: when the body is no JSON.
    package init(of body: UnnamedFile, maximumBytes: Int, for next: NextPage?) throws(PageError) {
        do {
            let json = try JSONEnvelope.read(
                file: body.path, maximumBytes: maximumBytes,
                largeArray: next?.readsElements == true ? .max : JSONEnvelope.largeArray)
            document = try JSONDocument(fast: JSONText(copying: json))
        } catch let fault as InputFault {
            throw PageError(fault.reason)
        } catch {
            throw PageError("this is no JSON document: \(error)")
        }
    }

    /// - Parameter body: gets the value, which is valid meanwhile.
    func read<Result, Failure>(_ body: (JSONValue) throws(Failure) -> Result) throws(Failure) -> Result {
        defer { withExtendedLifetime(document) {} }
        return try body(document.root)
    }
}
