import BrokerModel
import BrokerStaging
import Testing

@testable import BrokerStore

/// Unique values that an operation claims, and that a later one frees: only the rows at the end of a job must be unique,
/// whichever attributes a list has.
@Suite(.timeLimit(.minutes(5))) struct ParkedValuesTests {
    private static let model = """
        {"entities": {
          "Seat": {"identity": ["floor", "no"], "modified": "at",
            "unique": [["floor", "seat"], ["at", "desk", "chair"], ["no", "floor"]],
            "attributes": {"floor": "integer64", "no": "integer64", "at": "integer64", "seat": "string", "desk": "string",
              "chair": "string", "text": "string"}},
          "Room": {"identity": "no", "modified": "at", "unique": [["at", "door"]],
            "attributes": {"no": "integer64", "at": "integer64", "door": "string"}}}}
        """

    private let store: TestStore

    init() throws {
        store = try TestStore(Self.model)
        try store.apply(
            #"""
            {"Seat": [{"floor": 1, "no": 1, "seat": "a", "at": 1, "desk": "d", "chair": "c"}],
             "Room": [{"no": 1, "at": 1, "door": "d"}]}
            """#)
    }

    private static func delete(_ objects: String, of entity: String = "Seat") -> String {
        #"{"op": "delete", "entity": "\#(entity)", "objects": [\#(objects)]}"#
    }

    private static func process(_ records: String, of entity: String = "Seat") -> String {
        #"{"op": "process", "entity": "\#(entity)", "json": [\#(records)]}"#
    }

    /// The fault of a job that fails.
    private func fault(_ operations: String) throws -> String? {
        do {
            return try store.run(operations)
        } catch let fault as Fault {
            return "\(fault.code.rawValue) \(fault.path ?? "nowhere")"
        }
    }

    private static let first = #"{"floor": 1, "no": 1}"#

    @Test(
        arguments: [
            #"{"floor": 1, "no": 2, "seat": "a", "at": 2}"#,
            #"{"floor": 2, "no": 2, "at": 1, "desk": "d", "chair": "c"}"#,
            // The operation names the holder, too, and leaves its value alone.
            #"{"floor": 1, "no": 1, "text": "t"}, {"floor": 1, "no": 2, "seat": "a", "at": 2}"#,
        ]) func `a value is claimed before a deletion frees it, whichever attribute is first in its list`(
            records: String
        ) throws
    {
        #expect(
            try store.run("\(Self.process(records)), \(Self.delete(Self.first))") == "Seat +1 -1")
        #expect(try store.rows("SELECT no FROM Seat") == ["2"])
    }

    @Test func `a sync gives a value to a new object, whichever attribute is first in its list`() throws {
        let sync = #"{"op": "sync", "entity": "Seat", "json": [{"floor": 1, "no": 2, "seat": "a"}]}"#
        #expect(try store.run(sync) == "Seat +1 -1")
        #expect(try store.rows("SELECT floor, no, seat FROM Seat") == ["1|2|a"])
    }

    @Test func `with skip, a value that another object has at that moment is not taken`() throws {
        let claim = Self.process(#"{"floor": 1, "no": 2, "seat": "a"}"#)
        #expect(try store.run("\(claim), \(Self.delete(Self.first))", .skip) == "Seat -1 !1")
        #expect(try store.run("\(Self.delete(Self.first)), \(claim)", .skip) == "Seat +1")
    }

    @Test func `a value that is not freed comes back to its object, and the claim fails at its record`() throws {
        let claim = Self.process(
            #"{"floor": 2, "no": 2}, {"floor": 1, "no": 2, "text": "t"}, {"floor": 1, "no": 2, "seat": "a"}"#)
        let later = Self.delete(#"{"floor": 2, "no": 9}"#)
        #expect(try fault("\(claim), \(later)") == "constraintViolation /0/json/2")
        #expect(try store.run("\(claim), \(later)", .skip) == "Seat +2 !1")
        #expect(try store.rows("SELECT floor, no, seat FROM Seat ORDER BY 1, 2") == ["1|1|a", "1|2|NULL", "2|2|NULL"])
    }

    @Test func `a value that changes hands and back stays where it was`() throws {
        let there = Self.process(#"{"floor": 1, "no": 2, "seat": "a"}"#)
        let back = Self.process(#"{"floor": 1, "no": 2, "seat": "b"}"#)
        let operations = [there, Self.delete(#"{"floor": 2, "no": 9}"#), back].joined(separator: ", ")
        #expect(try store.run(operations) == "Seat +1")
        #expect(try store.rows("SELECT no, seat FROM Seat ORDER BY 1") == ["1|a", "2|b"])
    }

    /// The row number of such an object changes with its identity.
    @Test func `a parked value follows the renaming of its object`() throws {
        let there = Self.process(#"{"no": 2, "at": 1, "door": "d"}"#, of: "Room")
        let rename = #"{"entity": "Room", "object": 1, "json": {"no": 3, "at": 4}}"#
        #expect(try store.run("\(there), \(Self.delete("9", of: "Room")), \(rename)") == "Room +1 ~1")
        #expect(try store.rows("SELECT no, at, door FROM Room ORDER BY 1") == ["2|1|d", "3|4|d"])
    }

    @Test func `a where that asks for a parked attribute finds its value`() throws {
        let claim = Self.process(#"{"floor": 1, "no": 2, "seat": "a"}"#)
        let delete = #"{"op": "delete", "entity": "Seat", "where": "seat == 'a' AND #no == 1"}"#
        #expect(try fault("\(claim), \(delete)") == "constraintViolation /0/json/0")
        let other = #"{"op": "delete", "entity": "Seat", "where": "floor == 1 AND #no == 1"}"#
        #expect(try store.run("\(claim), \(other)") == "Seat +1 -1")
    }
}
