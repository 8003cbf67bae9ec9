import Broker
import Foundation
import Testing

@testable import BrokerRequests

@Suite(.timeLimit(.minutes(5))) struct JobMessageTests {
    private func content(_ job: Job) throws -> String {
        String(decoding: try job.content(id: job.id, wantsAcceptance: false), as: UTF8.self)
    }

    @Test func `a job's message has its options and its trace`() throws {
        var job = Job(
            .process(json: "{}", as: "E"), id: "a", onInvalid: .skip, unknownKeys: .fail, reply: .keys, isLenient: true)
        job.trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        #expect(
            try content(job) == #"{"id":"a","onInvalid":"skip","unknown":"fail","reply":"keys","lenient":true,"#
                + #""trace":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","entity":"E","json":{}}"#)
    }

    @Test func `a word that the protocol does not know is an error before anything is sent`() {
        for job in [
            Job(.process(json: "{}", as: "E"), reply: .init(rawValue: "all")),
            Job(.process(json: "{}", as: "E"), onInvalid: .init(rawValue: "maybe")),
            Job(.sync(json: "[]", as: "E", actions: [.init(rawValue: "upsert")])),
        ] {
            let error = #expect(throws: BrokerError.self) { try content(job) }
            #expect(error?.code == .unsupportedMessage)
        }
    }

    @Test func `a predicate with a value that cannot be encoded is an error when it is sent`() {
        let predicate: BrokerPredicate = "a == \(Double.nan)"
        let error = #expect(throws: BrokerError.self) { try content(Job(.delete("E", where: predicate))) }
        #expect(error?.code == .notEncodable)
        #expect(throws: BrokerError.self) { try Query("E", where: predicate).members() }
    }

    @Test func `what an encoder wrote is known to be one value, and changed bytes are not`() throws {
        var json = try RawJSON(encoding: [1])
        #expect(json.knownDepth != nil)
        json.bytes.append(UInt8(ascii: ","))
        #expect(json.knownDepth == nil)
        let error = #expect(throws: BrokerError.self) { try content(Job(.process(json: json, as: "E"))) }
        #expect(error?.code == .invalidJSON)
    }

    @Test func `a text that its reader has checked is not parsed again, unless it may be nested too deeply`() throws {
        // Broken, so that a parser would refuse it.
        let broken = Array("[1,]".utf8)
        let job = Job(.process(json: RawJSON(checked: broken, depth: 510), as: "E"))
        #expect(try content(job) == #"{"entity":"E","json":[1,]}"#)
        for job in [
            Job(.process(json: RawJSON(checked: broken, depth: 511), as: "E")),
            Job([.process(json: RawJSON(checked: broken, depth: 510), as: "E"), .process(json: "[]", as: "E")]),
        ] {
            let error = #expect(throws: BrokerError.self) { try content(job) }
            #expect(error?.code == .invalidJSON)
        }
    }

    @Test func `a decimal that is no number is not sent`() throws {
        let error = #expect(throws: BrokerError.self) { try content(Job(.process([Decimal.nan], as: "E"))) }
        #expect(error?.code == .invalidJSON || error?.code == .notEncodable)
    }
}
