import BrokerWire
import Foundation
import Testing

// Not @testable: what is used here is what users have.
import Broker

@Suite(.timeLimit(.minutes(5))) struct ValueTests {
    private struct Employee: Codable, Equatable {
        var id: Int
        var hiredAt: Date
    }

    private struct Seat: Codable, Equatable {
        var hall: String
        var number: Int
    }

    @Test func `values are encoded, bytes are JSON already, and a string is a value`() throws {
        let employee = Employee(id: 1, hiredAt: Date(timeIntervalSince1970: 1.25))
        let json = try RawJSON(encoding: employee)
        #expect(try json.decode(Employee.self) == employee)
        #expect(try json.decode([String: Double].self) == ["id": 1, "hiredAt": 1.25])
        let text = #"{"id":1}"#
        let bytes = Array(text.utf8)
        let taken: [any Encodable] = [bytes, Data(bytes)]
        for json in taken { #expect(try RawJSON(encoding: json).description == text) }
        #expect(try RawJSON(encoding: text).description == #""{\"id\":1}""#)
        do {
            _ = try RawJSON(encoding: Double.nan)
            Issue.record("it was encoded")
        } catch {
            #expect(error.code == .notEncodable)
        }
    }

    @Test func `an empty array of records is an empty array, and empty bytes are no value`() throws {
        #expect(try RawJSON(encoding: [Employee]()).description == "[]")
        #expect(try RawJSON(encoding: [Employee](), nulls: .written).description == "[]")
        #expect(try RawJSON(encoding: [UInt8]()).description.isEmpty)
    }

    @Test func `the text of an error with a fault has the code of the error, and the path of the fault`() {
        let fault = BrokerError.Fault(code: .malformedJSON, message: "No value.", path: "/json")
        #expect("\(BrokerError.invalidJSON(fault))" == "invalidJSON at /json: No value.")
    }

    @Test func `the same values give the same bytes, so that a job sent again is known as the same`() throws {
        let employee = Dictionary(uniqueKeysWithValues: (0..<50).map { ("key \($0)", $0) })
        let text = try RawJSON(encoding: [employee]).description
        let keys = employee.keys.sorted().map { #""\#($0)":\#(employee[$0] ?? -1)"# }
        #expect(text == "[{" + keys.joined(separator: ",") + "}]")
    }

    @Test func `keys are read as what they are, entity by entity`() throws {
        let completion = Completion(
            id: "a", sequence: 1,
            keys: .init(
                #"""
                {"Employee":{"inserted":[1,9223372036854775807],"updated":[],"deleted":[2]},
                 "Seat":{"inserted":[{"hall":"A","number":7}],"updated":[],"deleted":[]}}
                """#))
        #expect(try completion.keys(of: "Employee", as: Int64.self).inserted == [1, .max])
        #expect(try completion.keys(of: "Employee", as: Int64.self).deleted == [2])
        #expect(try completion.keys(of: "Seat", as: Seat.self).inserted == [Seat(hall: "A", number: 7)])
        #expect(try completion.keys(of: "Nobody", as: Int.self) == .init())
        #expect(throws: DecodingError.self) { try completion.keys(of: "Seat", as: Int.self) }
    }

    @Test func `every code of the protocol has a name`() {
        #expect(BrokerError.Code(rawValue: "idConflict") == .idConflict)
        #expect("\(BrokerError.Code.storeFull)" == "storeFull")
    }
}
