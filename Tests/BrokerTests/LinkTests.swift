import Broker
import Foundation
import Testing

/// Relationships that are keys or objects.
@Suite(.timeLimit(.minutes(5))) struct LinkTests {
    private struct Seat: Codable, Hashable {
        struct Key: Codable, Hashable {
            var hall: String
            var number: Int
        }

        var hall: String
        var number: Int
        var isFree: Bool
    }

    private struct Department: Codable, Hashable {
        var id: Int
        var name: String?
    }

    private struct Employee: Codable, Hashable {
        var id: Int
        var department: Link<Int, Department>?
        var seat: Link<Seat.Key, Seat>?
        var colleagues: [Link<String, Employee>]?
    }

    private static let employees: [(Employee, String)] = [
        (Employee(id: 1), #"{"id":1}"#),
        (Employee(id: 1, department: .key(7)), #"{"department":7,"id":1}"#),
        (
            Employee(id: 1, department: .object(Department(id: 7, name: "R&D"))),
            #"{"department":{"id":7,"name":"R&D"},"id":1}"#
        ),
        (
            Employee(id: 1, seat: .key(.init(hall: "A", number: 3))), #"{"id":1,"seat":{"hall":"A","number":3}}"#
        ),
        (
            Employee(id: 1, seat: .object(Seat(hall: "A", number: 3, isFree: true))),
            #"{"id":1,"seat":{"hall":"A","isFree":true,"number":3}}"#
        ),
        (
            Employee(id: 1, colleagues: [.key("a"), .object(Employee(id: 2, department: .key(7)))]),
            #"{"colleagues":["a",{"department":7,"id":2}],"id":1}"#
        ),
    ]

    @Test func `a link is a key or an object, both ways, and with another decoder`() throws {
        for (employee, text) in Self.employees {
            #expect(try RawJSON(encoding: employee).description == text)
            #expect(try RawJSON(text).decode(Employee.self) == employee)
            #expect(try JSONDecoder().decode(Employee.self, from: Data(text.utf8)) == employee)
        }
        #expect(try RawJSON(#"{"id":1,"department":null}"#).decode(Employee.self) == Employee(id: 1))
    }

    @Test func `members of an object that are nil are written as null where that is wanted`() throws {
        let employee = Employee(id: 1, department: .object(Department(id: 7)))
        #expect(
            try RawJSON(encoding: employee, nulls: .written).description
                == #"{"colleagues":null,"department":{"id":7,"name":null},"id":1,"seat":null}"#)
    }

    @Test func `what is neither is the object's fault, or the key's`() {
        let object = #expect(throws: DecodingError.self) {
            try RawJSON(#"{"id":1,"department":{"name":7}}"#).decode(Employee.self)
        }
        let key = #expect(throws: DecodingError.self) {
            try RawJSON(#"{"id":1,"department":"x"}"#).decode(Employee.self)
        }
        #expect("\(String(describing: object))".contains("id"))
        #expect("\(String(describing: key))".contains("Int"))
    }

    @Test func `a link is a key or an object, not both`() {
        let key = Link<Int, Department>.key(7)
        #expect(key.key == 7 && key.object == nil)
        let object = Link<Int, Department>.object(Department(id: 7))
        #expect(object.key == nil && object.object?.id == 7)
    }
}
