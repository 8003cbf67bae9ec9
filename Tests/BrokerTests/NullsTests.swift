import Broker
import Foundation
import Testing

/// Members that are nil, and are written as null by an option of the call.
@Suite(.timeLimit(.minutes(5))) struct NullsTests {
    private struct Address: Codable {
        var city: String?
        var floor: Int?
    }

    private struct Person: Codable {
        var id: Int
        var name: String?
        var age: Int8?
        var isActive: Bool?
        var score: Double?
        var born: Date?
        var salary: Decimal?
        var home: Address?
        var places: [Address] = []
        var tags: [String: Int?] = [:]
        @Nullable var phone: String?
    }

    @Test func `every member that is nil is null, in nested values, too`() throws {
        let person = Person(id: 1, home: Address(city: "Paris"), places: [Address()], phone: nil)
        #expect(
            try RawJSON(encoding: person, nulls: .written).description == #"{"age":null,"born":null,"#
                + #""home":{"city":"Paris","floor":null},"id":1,"isActive":null,"name":null,"phone":null,"#
                + #""places":[{"city":null,"floor":null}],"salary":null,"score":null,"tags":{}}"#)
        #expect(
            try RawJSON(encoding: person).description
                == #"{"home":{"city":"Paris"},"id":1,"phone":null,"places":[{}],"tags":{}}"#)
    }

    @Test func `values that are not nil are encoded as without the option`() throws {
        let person = Person(
            id: 1, name: "Ada", age: 3, isActive: true, score: 1.5, born: Date(timeIntervalSince1970: 1.25),
            salary: Decimal(string: "12500.50"), home: Address(city: "a", floor: 2),
            places: [Address(city: "b", floor: 1)],
            tags: ["a": 1], phone: "7")
        #expect(try RawJSON(encoding: [person], nulls: .written) == RawJSON(encoding: [person]))
    }
}
