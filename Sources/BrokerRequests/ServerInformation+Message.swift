package import Broker
internal import BrokerJSON
package import BrokerWire

extension ServerInformation {
    package init(_ welcome: Welcome) throws(BrokerError) {
        do throws(JSONError) {
            self.init(
                name: welcome.server, protocolVersion: welcome.version, entities: welcome.entities,
                limits: ServerInformation.Limits(try JSONDocument(parsing: JSONText(copying: welcome.limits))))
            hasJournal = welcome.hasJournal
            durability = welcome.durability
            replica = welcome.replica
            role = welcome.role
            features = Set(welcome.features)
        } catch {
            throw .protocolViolation("\(error)")
        }
    }
}

extension ServerInformation.Limits {
    fileprivate init(_ document: JSONDocument) {
        self.init()
        func count(_ key: String) -> Int? { document.root[key]?.int64.flatMap { Int(exactly: $0) } }
        maximumFrameBytes = count("maximumFrameBytes")
        maximumContentBytes = count("maximumContentBytes")
        maximumDepth = count("maximumDepth")
        maximumIDBytes = count("maximumIdBytes")
        maximumTagBytes = count("maximumTagBytes")
        jobMemory = count("jobMemory")
        jobsInFlight = count("jobsInFlight")
        outcomesKept = count("outcomesKept")
        outcomesKeptFor = count("outcomesKeptSeconds").map { .seconds($0) }
        outcomesForgottenThrough = document.root["outcomesForgottenThrough"]?.int64
        withExtendedLifetime(document) {}
    }
}
