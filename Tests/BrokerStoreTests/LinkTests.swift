import BrokerModel
import BrokerStaging
import TestSupport
import Testing

@testable import BrokerStore

/// Links in columns: to-one, one-to-many, one-to-one. Links in tables of their own: many-to-many, without an inverse, and symmetric.
@Suite(.timeLimit(.minutes(5))) struct CompanyLinkTests {
    private static let queries = [
        "departments": "SELECT id, department FROM Employee ORDER BY 1",
        "desks": "SELECT id, desk FROM Employee ORDER BY 1",
        "owners": "SELECT id, owner FROM Desk ORDER BY 1", "lockers": "SELECT id, locker FROM Employee ORDER BY 1",
        "projects": "SELECT * FROM Employee_projects ORDER BY 1, 2",
        "skills": "SELECT * FROM Employee_skills ORDER BY 1, 2",
        "friends": "SELECT * FROM Employee_friends ORDER BY 1, 2",
    ]

    @Test(
        arguments: Claim.list(
            #"""
            # nested records are found or created and linked
            {"Employee": [{"id": 1, "department": {"id": 10, "name": "R&D"}}, {"id": 2, "department": 10}]} => Department +1, Employee +2
            departments :: 1|10, 2|10
            {"Employee": [{"id": 1, "department": {"id": 10, "name": "R&D"}}, {"id": 2, "department": 10}]} => Department =1, Employee =2
            # a one-to-many link changes the child's row, not the parent's
            {"Department": [{"id": 10}, {"id": 11}], "Employee": [{"id": 1}, {"id": 2, "department": 11}]}
            {"Department": {"id": 10, "employees": [1, {"id": 2}, 3]}} => Department =1, Employee +1 ~2
            departments :: 1|10, 2|10, 3|10
            # null unlinks a to-one, and clears a to-many, also of objects that are not in the payload
            {"Department": {"id": 10, "employees": [1, 2, 3]}, "Employee": {"id": 4, "department": 11}}
            {"Employee": {"id": 1, "department": null}} => Employee ~1
            {"Department": {"id": 10, "employees": null}} => Department =1, Employee ~2
            {"Department": {"id": 10, "employees": null}} => Department =1
            departments :: 1|NULL, 2|NULL, 3|NULL, 4|11
            # rows may refer to each other in any order, in circles too
            {"Employee": [{"id": 1, "manager": {"id": 2, "manager": {"id": 3, "manager": 1}}}]}
            SELECT id, manager FROM Employee ORDER BY 1 :: 1|2, 2|3, 3|1
            {"Employee": {"id": 4, "manager": 4, "reports": [1]}}
            SELECT id, manager FROM Employee ORDER BY 1 :: 1|4, 2|3, 3|1, 4|4
            # links to compound identities and to row keys have columns of their own
            {"Employee": [{"id": 1, "seat": {"row": "A", "number": 4}}, {"id": 2, "seat": null}],
              "Note": [{"text": "x", "about": {"text": "y"}}]}
            SELECT id, seat_row, seat_number FROM Employee ORDER BY 1 :: 1|A|4, 2|NULL|NULL
            SELECT n.text, a.text FROM Note AS n LEFT JOIN Note AS a ON n.about = a._pk ORDER BY 1 :: x|y, y|NULL
            {"Employee": {"id": 1, "seat": null}}
            SELECT seat_row, seat_number FROM Employee WHERE id = 1 :: NULL|NULL
            # a one-to-one pair is true on both sides
            {"Employee": {"id": 1, "desk": {"id": 50}}, "Desk": {"id": 51, "owner": {"id": 2}}}
            desks :: 1|50, 2|51
            owners :: 50|1, 51|2
            # a new pair frees the partners that only the store knows
            {"Employee": [{"id": 1, "desk": 50}, {"id": 2, "desk": 51}, {"id": 3, "desk": 52}]}
            {"Employee": {"id": 1, "desk": 51}} => Desk ~2, Employee ~2
            desks :: 1|51, 2|NULL, 3|52
            owners :: 50|NULL, 51|1, 52|3
            # null frees the partner in the store
            {"Employee": [{"id": 1, "desk": 50}, {"id": 2, "desk": 51}]}
            {"Desk": {"id": 50, "owner": null}} => Desk ~1, Employee ~1
            desks :: 1|NULL, 2|51
            # a pair inside of one entity changes partners
            {"Employee": [{"id": 1, "spouse": 2}, {"id": 3, "spouse": 4}]}
            {"Employee": {"id": 1, "spouse": 3}} => Employee ~4
            SELECT id, spouse FROM Employee ORDER BY 1 :: 1|3, 2|NULL, 3|1, 4|NULL
            {"Employee": {"id": 3, "spouse": 1}} => Employee =2
            # a bare key whose object is missing makes a stub that a later record fills in
            {"Employee": {"id": 1, "department": 10}} => Department +1, Employee +1
            {"Department": {"id": 10, "name": "x"}} => Department ~1
            {"Employee": {"id": 1, "department": 10}} => Department =1, Employee =1
            SELECT * FROM Department :: 10|x
            # a bare key that may be missing is ignored, with a warning
            {"Item": {"code": "there"}}
            {"Employee": [{"id": 1, "locker": "gone"}, {"id": 2, "locker": "there"}]} => Employee +2, Item =1
            lockers :: 1|NULL, 2|there
            {"Employee": {"id": 2, "locker": "gone"}} => Employee =1
            warnings {"Employee": {"id": 2, "locker": "gone"}} => ignoredKey Employee.locker 1
            lockers :: 1|NULL, 2|there
            SELECT code FROM Item :: there
            # a bare key that must exist fails the job at its position, or is rejected
            {"Employee": [{"id": 1, "name": "a", "badge": "gone"}]} => objectNotFound /Employee/0/badge
            SELECT id FROM Employee ::
            skip {"Employee": [{"id": 1, "name": "a", "badge": "gone"}]}
                => Employee +1, Item !1; objectNotFound /Employee/0/badge
            SELECT id, name, badge FROM Employee :: 1|a|NULL
            # an object of the same job exists for a bare key before or after it
            {"Employee": {"id": 1, "badge": "b", "locker": "l"}, "Item": [{"code": "b"}, {"code": "l"}]}
                => Employee +1, Item +2
            SELECT badge, locker FROM Employee :: b|l
            # a to-many value may be one record or one bare key
            {"Department": {"id": 10, "employees": {"id": 1}}}
            {"Department": {"id": 10, "employees": "2"}}
            {"Department": {"id": 10, "employees": 3}}
            departments :: 1|10, 2|10, 3|10
            # a value that cannot name an object is an invalid value with its path
            {"Employee": {"id": 1, "department": [10]}} => invalidValue /Employee/department
            {"Employee": {"id": 1, "department": "x"}} => invalidValue /Employee/department
            {"Department": {"id": 1, "employees": [1, null]}} => invalidValue /Department/employees/1
            {"Department": {"id": 1, "employees": [[1]]}} => invalidValue /Department/employees/0
            {"Employee": {"id": 1, "seat": 5}} => invalidValue /Employee/seat
            {"Employee": {"id": 1, "notes": ["x"]}} => invalidValue /Employee/notes/0
            # the same object at several depths is one row, and later values win
            {"Employee": [{"id": 1, "name": "a", "manager": {"id": 2, "name": "b", "manager": {"id": 1, "name": "c"}}},
              {"id": 2, "department": {"id": 10, "employees": [{"id": 1, "name": "d"}]}}]}
            SELECT id, name, department, manager FROM Employee ORDER BY id :: 1|d|10|2, 2|b|10|1
            # with skip the smallest object is rejected, and its parent loses only the link
            skip {"Employee": [{"id": 1, "name": "a", "department": {"id": 10, "name": []}, "manager": {"id": 2, "manager": "x"}},
              {"id": "y", "department": {"id": 12}}], "Department": [{"id": 11, "employees": [{"id": 3}, {"name": "z"},
              {"id": 4, "department": {"id": 13, "name": {}}}]}]}
              => Department +1 !2, Employee +4 !3; invalidValue /Employee/0/department/name, invalidValue /Employee/0/manager/manager,
              invalidValue /Employee/1/id, missingIdentity /Department/0/employees/1, invalidValue /Department/0/employees/2/department/name
            SELECT id, name, department, manager FROM Employee ORDER BY id :: 1|a|NULL|2, 2|NULL|NULL|NULL, 3|NULL|11|NULL, 4|NULL|11|NULL
            SELECT id FROM Department :: 11
            # the least demanding bare key of an object decides
            {"Employee": [{"id": 1, "badge": "a"}, {"id": 3, "tool": "a"}]} => Employee +2, Item +1
            {"Employee": [{"id": 1, "locker": "b"}, {"id": 2, "badge": "b"}]} => objectNotFound /Employee/1/badge
            # a one-to-one partner that is named on both sides, or again, stays
            {"Employee": {"id": 1, "desk": {"id": 50, "owner": {"id": 1, "desk": 50}}}} => Desk +1, Employee +1
            {"Employee": [{"id": 1, "desk": 50}, {"id": 2, "desk": 51}, {"id": 1, "desk": 51}]}
            desks :: 1|51, 2|NULL
            owners :: 50|NULL, 51|1
            {"Employee": [{"id": 1, "spouse": 2}, {"id": 3, "spouse": {"id": 2}}, {"id": 4, "spouse": 4}]}
            SELECT id, spouse FROM Employee ORDER BY 1 :: 1|NULL, 2|3, 3|2, 4|4
            # a many-to-many pair has one table, whichever side names the link, and a link named twice is one
            {"Employee": {"id": 1, "projects": [7, {"id": 8}, 7, {"id": 7, "members": 1}]}, "Project": {"id": 7, "members": [2, 1]}}
            projects :: 1|7, 1|8, 2|7
            # a new link counts as an update of the object whose record names it
            {"Employee": [{"id": 1}, {"id": 2}], "Project": [{"id": 7}, {"id": 8}]}
            {"Employee": {"id": 1, "projects": [7, 8]}} => Employee ~1, Project =2
            {"Project": {"id": 7, "members": [1, 2]}} => Employee =2, Project ~1
            {"Project": {"id": 7, "members": [1, 2]}} => Employee =2, Project =1
            {"Employee": {"id": 3, "name": "new", "projects": [8]}} => Employee +1, Project =1
            # a union keeps the links that are there, null clears them
            {"Employee": [{"id": 1, "projects": [7]}, {"id": 2, "projects": [7, 8]}]}
            {"Employee": {"id": 1, "projects": []}} => Employee =1
            {"Employee": {"id": 1, "projects": 8}}
            projects :: 1|7, 1|8, 2|7, 2|8
            {"Employee": {"id": 1, "projects": null}} => Employee ~1
            {"Employee": {"id": 1, "projects": null}} => Employee =1
            {"Project": {"id": 7, "members": null}} => Project ~1
            projects :: 2|8
            # an assignment of replace ends the links that the record does not name
            {"Employee": [{"id": 1, "skills": ["a", "b", "c"]}, {"id": 2, "skills": ["a"]}]}
            {"Employee": {"id": 1, "skills": ["b", "d"]}} => Employee ~1, Skill +1 =1
            skills :: 1|b, 1|d, 2|a
            {"Employee": {"id": 1, "skills": ["d", "b"]}} => Employee =1, Skill =2
            {"Employee": {"id": 1, "name": "x"}} => Employee ~1
            skills :: 1|b, 1|d, 2|a
            {"Employee": {"id": 1, "skills": []}} => Employee ~1
            skills :: 2|a
            # a symmetric relationship links both ways and ends both ways
            {"Employee": [{"id": 1, "friends": [2, 3]}, {"id": 4, "friends": [1, 4]}]}
            friends :: 1|2, 1|3, 1|4, 2|1, 3|1, 4|1, 4|4
            {"Employee": {"id": 2, "friends": [1]}} => Employee =2
            {"Employee": {"id": 1, "friends": null}} => Employee ~1
            friends :: 4|4
            # links to objects without identity join by row key
            {"Employee": {"id": 1, "notes": [{"text": "x"}, {"text": "x"}]}}
            {"Employee": {"id": 1, "notes": {"text": "y"}}}
            SELECT * FROM Employee_notes ORDER BY 1, 2 :: 1|1, 1|2, 1|3
            """#))
    func `links of every form`(claim: Claim) throws { try claim.check(TestStore(company), Self.queries) }

    @Test(
        arguments: Claim.list(
            #"""
            # a link that two records name counts for both, though one of them replaced what the other had said
            {"Employee": {"id": 1}}
            {"Employee": {"id": 1, "projects": [7]}, "Project": {"id": 7, "members": [1]}} => Employee ~1, Project +1
            # replacing a one-to-many keeps the children that the record names
            {"Department": {"id": 10, "employees": [1, 2, 3]}}
            {"Department": {"id": 10, "employees": [2, 4]}} => Department =1, Employee +1 ~2 =1
            departments :: 1|NULL, 2|10, 3|NULL, 4|10
            """#))
    func `sets that replace`(claim: Claim) throws {
        var model = company
        for inverse in [#""inverse": "projects""#, #""toMany": true, "inverse": "department""#] {
            model = model.replacing(inverse, with: inverse + #", "assignment": "replace""#)
        }
        try claim.check(TestStore(model), Self.queries)
    }
}

/// To-many relationships that keep the payload's order.
@Suite(.timeLimit(.minutes(5))) struct OrderedTests {
    /// - Parameter assignment: of all to-many relationships.
    private static func model(_ assignment: String = "union") -> String {
        let ordered = #""toMany": true, "ordered": true, "assignment": "\#(assignment)""#
        return """
            {"entities": {
              "Album": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}, "relationships": {
                "songs": {"entity": "Song", "inverse": "album", \(ordered)},
                "fans": {"entity": "Fan", "inverse": "albums", \(ordered)}, "tags": {"entity": "Tag", \(ordered)}}},
              "Song": {"identity": ["disc", "no"], "attributes": {"disc": "integer64", "no": "integer64",
                "title": {"type": "string", "optional": false}}, "relationships": {"album": {"entity": "Album"}}},
              "Fan": {"identity": "name", "identityOptional": true, "attributes": {"name": "string"}, "relationships": {
                "albums": {"entity": "Album", \(ordered)}, "friends": {"entity": "Fan", "inverse": "friends", \(ordered)}}},
              "Tag": {"identity": "word", "attributes": {"word": "string", "size": "integer64"}}}}
            """
    }

    /// A job of one album with these songs.
    private static func album(_ songs: Int..., id: Int = 7) -> String { #"{"Album": \#(record(songs, id))}"# }

    private static func record(_ songs: [Int], _ id: Int = 7) -> String {
        let songs = songs.map { #"{"disc": 1, "no": \#($0), "title": "t"}"# }
        return #"{"id": \#(id), "songs": [\#(songs.joined(separator: ", "))]}"#
    }

    private static let fans =
        "SELECT source, position, name, inverse_position FROM Album_fans JOIN Fan ON destination = _pk"
    private static let queries = [
        "songs": "SELECT album, album_position, no FROM Song ORDER BY 1, 2, 3",
        "tags": "SELECT source, position, destination FROM Album_tags ORDER BY 1, 2, 3",
        // The album's side, and the fan's.
        "fans": fans + " ORDER BY 1, 2", "albums": fans + " ORDER BY 3, 4",
        "friends": "SELECT a.name, position, b.name FROM Fan_friends JOIN Fan a ON source = a._pk "
            + "JOIN Fan b ON destination = b._pk ORDER BY 1, 2",
    ]

    @Test(
        arguments: Claim.list(
            #"""
            # children are in the order of the payload, new ones after existing ones
            \#(album(3, 1, 2))
            songs :: 7|0|3, 7|1|1, 7|2|2
            \#(album(5, 2, 4)) => Album =1, Song +2 =1
            songs :: 7|0|3, 7|1|1, 7|2|2, 7|3|5, 7|4|4
            \#(album(5, 2, 4)) => Album =1, Song =3
            # a child that names its parent is appended, in the order of the text
            {"Song": [{"disc": 1, "no": 9, "title": "t", "album": 7}, {"disc": 1, "no": 8, "title": "t", "album": 7}],
              "Album": \#(record([1, 9]))}
            songs :: 7|0|9, 7|1|8, 7|2|1
            {"Song": [{"disc": 1, "no": 9, "title": "t", "album": 7}, {"disc": 1, "no": 8, "title": "t", "album": 7}],
              "Album": \#(record([1, 9]))} => Album =1, Song =3
            # an object that leaves a list makes a gap, and has no position, or the last one elsewhere
            {"Album": [\#(record([1, 2, 3])), \#(record([4], 8))]}
            {"Song": [{"disc": 1, "no": 1, "album": 8}, {"disc": 1, "no": 2, "album": null}]} => Album =1, Song ~2
            songs :: NULL|NULL|2, 7|2|3, 8|0|4, 8|1|1
            \#(album(1, 2))
            songs :: 7|2|3, 7|3|1, 7|4|2, 8|0|4
            # the assertions of one job about a child's position apply one after the other
            {"Album": [\#(record([1, 2])), \#(record([1], 8))], "Song": {"disc": 1, "no": 2, "album": null},
              "Album": \#(record([3, 1, 2]))}
            songs :: 7|0|3, 7|1|1, 7|2|2
            {"Album": [\#(record([9])), {"id": 7, "songs": null}, \#(record([2, 9]))]}
            songs :: NULL|NULL|1, NULL|NULL|3, 7|0|2, 7|1|9
            # links without an inverse keep the order of their source
            {"Album": {"id": 7, "tags": ["c", "a", "c", "b"]}}
            tags :: 7|0|c, 7|1|a, 7|2|b
            {"Album": {"id": 7, "tags": ["d", "b"]}} => Album ~1, Tag +1 =1
            tags :: 7|0|c, 7|1|a, 7|2|b, 7|3|d
            {"Album": {"id": 7, "tags": ["d", "b"]}} => Album =1, Tag =2
            {"Album": [{"id": 7, "tags": null}, {"id": 7, "tags": ["b", "d"]}]}
            tags :: 7|0|b, 7|1|d
            # both sides of a many-to-many keep their own order
            {"Album": [{"id": 7, "fans": ["z", "a"]}, {"id": 8, "fans": ["a", "z"]}]}
            fans :: 7|0|z|0, 7|1|a|0, 8|0|a|1, 8|1|z|1
            albums :: 7|1|a|0, 8|0|a|1, 7|0|z|0, 8|1|z|1
            {"Fan": {"name": "m", "albums": [8, 9, 7]}} => Album +1 =2, Fan +1
            fans :: 7|0|z|0, 7|1|a|0, 7|2|m|2, 8|0|a|1, 8|1|z|1, 8|2|m|0, 9|0|m|1
            {"Fan": {"name": "m", "albums": [7, 8, 9]}, "Album": {"id": 7, "fans": ["m", "a"]}} => Album =3, Fan =2
            # links that the other side cleared have lost their place
            {"Fan": [{"name": "z", "albums": [7, 8]}], "Album": [{"id": 7, "fans": null}],
              "Fan": {"name": "z", "albums": [9, 7]}}
            albums :: 8|0|z|1, 9|0|z|2, 7|0|z|3
            # a symmetric relationship has an order in each direction
            {"Fan": [{"name": "a", "friends": ["c", "b", "a"]}, {"name": "d", "friends": ["b", "a"]}]}
            friends :: a|0|c, a|1|b, a|2|a, a|3|d, b|0|a, b|1|d, c|0|a, d|0|b, d|1|a
            {"Fan": [{"name": "a", "friends": ["c", "b", "a"]}, {"name": "d", "friends": ["b", "a"]}]} => Fan =4
            SELECT count(*) FROM pragma_table_info('Fan_friends') :: 3
            # objects without identity are in the order of the payload
            {"Album": {"id": 7, "fans": [{}, {"name": "x"}, {}]}}
            SELECT position, destination FROM Album_fans ORDER BY 1 :: 0|1, 1|2, 2|3
            """#))
    func `sets that grow`(claim: Claim) throws { try claim.check(TestStore(Self.model()), Self.queries) }

    @Test(
        arguments: Claim.list(
            #"""
            # replacing numbers the payload from 0, and a child that moved has changed
            \#(album(1, 2, 3))
            \#(album(2, 1, 3)) => Album =1, Song ~2 =1
            songs :: 7|0|2, 7|1|1, 7|2|3
            \#(album(4, 3)) => Album =1, Song +1 ~3
            songs :: NULL|NULL|1, NULL|NULL|2, 7|0|4, 7|1|3
            \#(album(4, 3)) => Album =1, Song =2
            # replacing numbers links from 0, and a new order changes the object that names it
            {"Album": {"id": 7, "tags": ["a", "b", "c"]}}
            {"Album": {"id": 7, "tags": ["c", "a", "b"]}} => Album ~1, Tag =3
            tags :: 7|0|c, 7|1|a, 7|2|b
            {"Album": {"id": 7, "tags": ["c", "a", "b"]}} => Album =1, Tag =3
            {"Album": {"id": 7, "tags": ["b", "d"]}}
            tags :: 7|0|b, 7|1|d
            {"Album": [{"id": 7, "tags": ["x", "b"]}, {"id": 7, "tags": ["y", "x"]}]}
            tags :: 7|0|y, 7|1|x
            # a rejected element retains its position, and no other object gets it
            {"Album": {"id": 7, "tags": ["b", "a", "c", "d"]}}
            skip {"Album": {"id": 7, "tags": ["c", {"word": "b", "size": "x"}, "a", {"word": "e", "size": "x"}]}}
                => Album ~1, Tag =2 !2; invalidValue /Album/tags/1/size, invalidValue /Album/tags/3/size
            tags :: 7|0|b, 7|1|c, 7|2|a
            skip {"Album": {"id": 7, "tags": ["c", {"word": "b", "size": "x"}, "a", {"word": "e", "size": "x"}]}}
                => Album =1, Tag =2 !2; invalidValue /Album/tags/1/size, invalidValue /Album/tags/3/size
            # replacing one side of a many-to-many leaves the other side's order alone, and its gaps
            {"Album": [{"id": 7, "fans": ["z", "a"]}, {"id": 8, "fans": ["a", "z"]}]}
            {"Fan": {"name": "z", "albums": [8, 9, 7]}} => Album +1 =2, Fan ~1
            fans :: 7|0|z|2, 7|1|a|0, 8|0|a|1, 8|1|z|0, 9|0|z|1
            {"Fan": {"name": "z", "albums": [8, 9, 7]}} => Album =3, Fan =1
            {"Fan": {"name": "z", "albums": []}}
            fans :: 7|1|a|0, 8|0|a|1
            """#))
    func `ordered sets that replace`(claim: Claim) throws {
        try claim.check(TestStore(Self.model("replace")), Self.queries)
    }

    @Test func `an index serves each order`() throws {
        let store = try TestStore(Self.model())
        let columns = try store.rows("SELECT name FROM pragma_table_info('Album_fans')")
        #expect(columns == ["source", "destination", "position", "inverse_position"])
        for (query, index) in [
            ("no FROM Song WHERE album = 7 ORDER BY album_position", "Song.album.album_position"),
            ("destination FROM Album_fans WHERE source = 7 ORDER BY position", "Album_fans.source.position"),
            (
                "source FROM Album_fans WHERE destination = 7 ORDER BY inverse_position",
                "Album_fans.destination.inverse_position"
            ),
        ] {
            let plan = try store.rows("EXPLAIN QUERY PLAN SELECT \(query)")
            #expect(plan.count == 1 && plan[0].contains("INDEX \(index) "), "\(plan)")
        }
    }

    @Test func `a relationship that is ordered now, or no more, is refused`() throws {
        let (ordered, plain) = (Self.model(), Self.model().replacing(#""ordered": true, "#, with: ""))
        for (old, new, words) in [
            (ordered, plain, "ordered in the store, and not ordered"),
            (plain, ordered, "not ordered in the store, and ordered"),
        ] {
            let store = try TestStore(old, having: Self.album(1))
            #expect(try store.refusal(new)?.contains("Album.songs is \(words) in the model") == true)
        }
    }
}

/// Objects that live in their owner (`owned`): they are identified by it, and deleted when no value names them.
@Suite(.timeLimit(.minutes(5))) struct OwnedTests {
    static let model = """
        {"entities": {
          "Order": {"identity": "id", "attributes": {"id": "integer64", "total": "double"},
             "relationships": {"lines": {"entity": "OrderLine", "toMany": true, "owned": true},
                               "address": {"entity": "Address", "owned": true}}},
          "OrderLine": {"attributes": {"sku": {"type": "string", "optional": false}, "quantity": "integer64"},
             "relationships": {"taxes": {"entity": "Tax", "toMany": true, "owned": true},
                               "product": {"entity": "Product", "inverse": "lines"}}},
          "Tax": {"identity": "name", "attributes": {"name": "string", "rate": "double"}},
          "Address": {"attributes": {"city": "string", "zip": "string"}},
          "Product": {"identity": "id", "attributes": {"id": "integer64"},
             "relationships": {"lines": {"entity": "OrderLine", "toMany": true}}},
          "Log": {"attributes": {"name": "string"}, "relationships": {"entries": {"entity": "Entry", "toMany": true, "owned": true}}},
          "Entry": {"attributes": {"text": "string"}}}}
        """

    private let store: TestStore

    init() throws { store = try TestStore(Self.model) }

    private static let queries = [
        "lines": #"SELECT parent_id, position, sku, quantity, "order" FROM OrderLine ORDER BY 1, 2"#,
        "taxes": "SELECT * FROM Tax ORDER BY 1, 2, 3", "addresses": "SELECT * FROM Address ORDER BY 1",
    ]
    private static let two = #"{"id": 1, "lines": [{"sku": "a", "quantity": 2}, {"sku": "b", "quantity": 1}]}"#
    private static let taxed =
        #"{"Order": {"id": 1, "lines": [{"sku": "a", "taxes": [{"name": "x"}, {"name": "y"}]}, {"sku": "b", "taxes": {"name": "x"}}]}}"#
    private static let line = #"{"entity": "OrderLine", "object": {"parent_id": 1, "position": 1}, "json": "#
    private static let address =
        #"{"op": "relate", "entity": "Order", "object": 1, "relationship": "address", "json": "#
    private static let sync =
        #"{"op": "sync", "entity": "Order", "json": [{"id": 1, "lines": [{"sku": "a"}]}, {"id": 3, "lines": {"sku": "n"}}]"#

    @Test(
        arguments: Claim.list(
            #"""
            # an order with two lines that is sent three times has two lines
            {"Order": \#(two)} => Order +1, OrderLine +2
            {"Order": \#(two)} => Order =1, OrderLine =2
            {"Order": \#(two)} => Order =1, OrderLine =2
            lines :: 1|0|a|2|1, 1|1|b|1|1
            {"Order": {"id": 1, "lines": [{"sku": "a", "quantity": 3}, {"sku": "b", "quantity": 1}]}} => Order =1, OrderLine ~1 =1
            # lines that a value does not name are deleted
            {"Order": \#(two)}
            {"Order": {"id": 1, "total": 5}} => Order ~1
            lines :: 1|0|a|2|1, 1|1|b|1|1
            {"Order": {"id": 1, "lines": [{"sku": "b"}]}} => Order =1, OrderLine ~1 -1
            lines :: 1|0|b|2|1
            {"Order": {"id": 1, "lines": []}} => Order =1, OrderLine -1
            {"Order": \#(two)}
            {"Order": {"id": 1, "lines": null}} => Order =1, OrderLine -2
            {"Order": {"id": 1, "lines": null}} => Order =1
            lines ::
            # lines go with the taxes in them, and their keys are reported
            \#(taxed) => Order +1, OrderLine +2, Tax +3
            \#(taxed) => Order =1, OrderLine =2, Tax =3
            taxes :: 1|0|x|NULL|1|0, 1|0|y|NULL|1|0, 1|1|x|NULL|1|1
            {"Order": {"id": 1, "lines": [{"sku": "a", "taxes": [{"name": "y", "rate": 2}]}, {"sku": "b"}]}}
              => Order =1, OrderLine =2, Tax ~1 -1
            keys {"Order": {"id": 1, "lines": {"sku": "a"}}} => {"Order":{"inserted":[],"updated":[],"deleted":[]},"OrderLine":{"inserted":[],"updated":[],"deleted":[{"parent_id":1,"position":1}]},"Tax":{"inserted":[],"updated":[],"deleted":[{"parent_parent_id":1,"parent_position":1,"name":"x"}]}}
            {"op": "delete", "entity": "Order", "objects": [1]} => Order -1, OrderLine -1, Tax -1
            # an owned object of a to-one relationship changes, stays and goes
            {"Order": {"id": 1, "address": {"city": "Rom", "zip": "1"}}} => Address +1, Order +1
            {"Order": {"id": 1, "address": {"city": "Rom", "zip": "1"}}} => Address =1, Order =1
            {"Order": {"id": 1, "address": {"zip": "2"}}} => Address ~1, Order =1
            {"Order": {"id": 1}} => Order =1
            addresses :: 1|Rom|2|1
            {"Order": {"id": 1, "address": null}} => Address -1, Order ~1
            {"Order": [{"id": 1, "address": {"zip": "2"}}, {"id": 1, "address": null}]} => Order =1
            {"Order": [{"id": 1, "address": null}, {"id": 1, "address": {"zip": "2"}}]} => Address +1, Order ~1
            {"op": "delete", "entity": "Order"} => Address -1, Order -1
            # the last record of an order in a job says which lines it has
            {"Order": [{"id": 1, "lines": [{"sku": "a"}, {"sku": "b"}]}, {"id": 1, "lines": [{"sku": "c"}]}, {"id": 2, "lines": [{"sku": "d"}]}]}
              => Order +2, OrderLine +2
            lines :: 1|0|c|NULL|1, 2|0|d|NULL|2
            {"Order": \#(two)}
            {"entity": "Order", "json": {"id": 1, "lines": [{"sku": "x"}]}}, {"entity": "Product", "json": {"id": 5}},
              {"entity": "Order", "json": {"id": 1, "lines": [{"sku": "x"}, {"sku": "b"}]}} => Order =1, OrderLine ~2, Product +1
            {"Order": [\#(two), {"id": 1, "lines": null}]} => Order =1, OrderLine -2
            {"Order": [{"id": 1, "lines": null}, \#(two)]} => Order =1, OrderLine +2
            # one line is deleted and made again by two steps of a job
            {"Order": \#(two)}
            {"entity": "Order", "json": {"id": 1, "lines": []}}, {"op": "delete", "entity": "Product"},
              {"entity": "Order", "json": {"id": 1, "lines": [{"sku": "a"}]}} => Order =1, OrderLine ~1 -1
            lines :: 1|0|a|NULL|1
            # an invalid element leaves the stored object
            {"Order": \#(two)}
            skip {"Order": {"id": 1, "lines": [{"sku": "a"}, {"sku": [], "quantity": 7}]}}
              => Order =1, OrderLine =1 !1; invalidValue /Order/lines/1/sku
            skip {"Order": {"id": 1, "lines": [null, 5, {"sku": "c"}]}}
              => Order =1, OrderLine +1 !2; invalidValue /Order/lines/0, invalidValue /Order/lines/1
            lines :: 1|0|a|2|1, 1|1|b|1|1, 1|2|c|NULL|1
            skip {"Order": [{"id": 2}, {"id": 1, "lines": [{"sku": "a"}, {"sku": []}, {"sku": "c"}]}]}
              => Order +1 =1, OrderLine =2 !1; invalidValue /Order/1/lines/1/sku
            skip {"Order": {"id": 1, "lines": [{"sku": "a"}, {}, {}, {"quantity": 4}]}}
              => Order =1, OrderLine =3 !1; missingValue /Order/lines/3
            skip {"Order": [{"id": 1, "lines": []}, {"id": 1, "lines": [{"sku": []}]}]}
              => Order =1, OrderLine -3 !1; invalidValue /Order/1/lines/0/sku
            # what is read is faulty before the object is missing
            {"op": "relate", "entity": "Order", "object": 9, "relationship": "lines", "json": [{"skus": 1}]} => noKnownKey /0/json/0
            {"op": "relate", "entity": "Order", "object": 9, "relationship": "lines", "json": [{"sku": []}]} => invalidValue /0/json/0/sku
            {"op": "relate", "entity": "Order", "object": 9, "relationship": "lines", "json": [{"sku": "a"}]} => objectNotFound /0/object
            # an order that gets another identity keeps its lines
            {"Order": {"id": 1, "lines": [{"sku": "a", "taxes": [{"name": "x"}]}, {"sku": "b"}], "address": {"zip": "1"}}}
            {"entity": "Order", "object": 1, "json": {"id": 7, "lines": [{"sku": "a"}, {"sku": "c"}]}}
              => Address ~1, Order ~1, OrderLine ~2, Tax ~1
            lines :: 7|0|a|NULL|7, 7|1|c|NULL|7
            taxes :: 7|0|x|NULL|7|0
            addresses :: 7|NULL|1|7
            {"Order": {"id": 1, "lines": [{"sku": "z"}]}} => Order +1, OrderLine +1
            {"entity": "Tax", "object": {"parent_parent_id": 7, "parent_position": 0, "name": "x"}, "json": {"name": "y", "rate": 3}}
              => Tax ~1
            taxes :: 7|0|y|3.0|7|0
            # operations name an owned object by its key
            {"Order": \#(two)}
            \#(line){"quantity": 9}} => OrderLine ~1
            {"op": "relate", "entity": "Order", "object": 1, "relationship": "lines", "json": [{"sku": "c"}]} => Order =1, OrderLine ~1 -1
            lines :: 1|0|c|2|1
            skip {"op": "relate", "entity": "Product", "object": 3, "relationship": "lines", "json": null}
              => Product !1; objectNotFound /0/object
            {"op": "relate", "entity": "OrderLine", "object": {"parent_id": 1, "position": 0}, "relationship": "order", "json": 2}
              => invalidValue /0/json
            {"entity": "OrderLine", "json": {"sku": "a"}} => missingIdentity /0/json
            {"entity": "Product", "json": {"id": 1, "lines": [{"sku": "a"}]}} => missingIdentity /0/json/lines/0
            {"op": "relate", "entity": "Order", "object": 1, "relationship": "lines", "json": [1]} => invalidValue /0/json/0
            {"op": "delete", "entity": "OrderLine", "objects": [{"parent_id": 1, "position": 0}]} => OrderLine -1
            # an owned object that is named by its key owns others
            {"Order": \#(two)}
            \#(line){"taxes": [{"name": "x"}, {"name": "y"}]}} => OrderLine =1, Tax +2
            \#(line){"taxes": [{"name": "y"}]}} => OrderLine =1, Tax =1 -1
            taxes :: 1|1|y|NULL|1|1
            \#(address){"zip": "1"}} => Address +1, Order ~1
            \#(address)null} => Address -1, Order ~1
            # an owner without identity gets what a relate sends
            {"Log": {"name": "a"}}
            {"op": "relate", "entity": "Log", "object": 1, "relationship": "entries", "json": [{"text": "b"}]}
            SELECT text FROM Entry :: b
            # a sync keeps the lines of the orders that it names
            {"Order": [\#(two), {"id": 2, "lines": {"sku": "z"}}]}
            \#(sync), "actions": ["delete"]} => Order -1, OrderLine -1
            lines :: 1|0|a|2|1, 1|1|b|1|1
            \#(sync)} => Order +1 =1, OrderLine +1 =1 -1
            lines :: 1|0|a|2|1, 3|0|n|NULL|3
            """#))
    func `owned objects`(claim: Claim) throws { try claim.check(store, Self.queries) }

    @Test func `an object is fetched with what it owns, in order, and sent back as it is`() throws {
        try store.apply(
            #"""
            {"Order": {"id": 1, "lines": [{"sku": "b", "product": 3}, {"sku": "a", "taxes": {"name": "x"}}], "address": {"zip": "1"}}}
            """#)
        let order = try store.fetch("Order") { $0.include = ["lines", "address"] }
        #expect(
            order == #"[{"id":1,"total":null,"lines":[{"sku":"b","quantity":null,"product":3},"#
                + #"{"sku":"a","quantity":null,"product":null}],"address":{"city":null,"zip":"1"}}]"#)
        #expect(try store.changes(#"{"Order": \#(order)}"#) == "Address =1, Order =1, OrderLine =2, Product =1")
        #expect(try store.fetch("Order") == #"[{"id":1,"total":null}]"#)
        #expect(
            try store.fetch("Tax") { $0.names = .local }
                == #"[{"parent_parent_id":1,"parent_position":1,"name":"x","rate":null,"#
                + #""orderLine":{"parent_id":1,"position":1}}]"#)
    }

    @Test func `owned objects are retained with the parts of an earlier model`() throws {
        let (orders, small) = (#"{"Order": \#(Self.two)}"#, Models.of(["Order": "id integer64, total double"]))
        try store.apply(orders)
        try store.reopen(small, removal: .keep)
        #expect(try store.changes(#"{"Order": [{"id": 1, "total": 3}, {"id": 2}]}"#) == "Order +1 ~1")
        try store.reopen(Self.model)
        #expect(try store.changes(orders) == "Order =1, OrderLine =2")
        try store.reopen(small, removal: .keep)
        #expect(try store.run(#"{"op": "delete", "entity": "Order", "objects": [1]}"#) == "Order -1")
        try store.reopen(Self.model)
        #expect(try store.rows(Self.queries["lines"]!).isEmpty)
    }

    @Test func `the store opens again without a migration`() throws {
        let orders = #"{"Order": \#(Self.two)}"#
        try store.apply(orders)
        let written = try store.rows("SELECT value FROM _broker_meta WHERE key = 'model'")
        #expect(written == [store.plan.model.text])
        for model in [nil, written[0]] {
            try store.reopen(model)
            #expect(store.store.migration.changes.isEmpty)
        }
        #expect(try store.changes(orders) == "Order =1, OrderLine =2")
    }
}

/// Owned objects beside other rules: keys of their own, mappings, unique values, ages, tombstones, and other jobs.
@Suite(.timeLimit(.minutes(5))) struct OwnedSetTests {
    /// - Parameter changes: to the model of a repository that owns its releases, each known by its tag there.
    private static func model(_ changes: [(String, String)] = []) -> String {
        changes.reduce(
            """
            {"entities": {
              "Repo": {"identity": "name", "attributes": {"name": "string", "at": "integer64"},
                 "relationships": {"releases": {"entity": "Release", "toMany": true, "owned": true}}},
              "Release": {"identity": "tag", "attributes": {"tag": "string", "size": "integer64"}},
              "File": {"identity": "id", "attributes": {"id": "integer64"}}},
             "mappings": {"release": {"entity": "Release", "nestingKey": "tag", "collection": true}}}
            """
        ) { model, change in
            #expect(model.contains(change.0))
            return model.replacing(change.0, with: change.1)
        }
    }

    private static let two = #"{"name": "a", "releases": [{"tag": "1", "size": 1}, {"tag": "2", "size": 2}]}"#
    private static let releases = "SELECT parent_name, tag, size FROM Release ORDER BY 1, 2"

    struct Variant: CustomTestStringConvertible, Sendable {
        let claim: Claim
        let model: String
        var testDescription: String { claim.testDescription }

        init(_ changes: [(String, String)], _ script: String) {
            (claim, model) = (Claim.list(script)[0], OwnedSetTests.model(changes))
        }
    }

    @Test(arguments: [
        Variant(
            [],
            #"""
            # a key of its own names an object among those of its owner
            {"Repo": [\#(two), {"name": "b", "releases": {"tag": "1", "size": 9}}]} => Release +3, Repo +2
            {"Repo": {"name": "a", "releases": [{"tag": "3"}, {"tag": "2"}]}} => Release +1 =1 -1, Repo =1
            releases :: a|2|2, a|3|NULL, b|1|9
            skip {"Repo": {"name": "a", "releases": [{"tag": "2", "size": "x"}, {"size": 4}]}}
              => Release -1 !2, Repo =1; invalidValue /Repo/releases/0/size, missingIdentity /Repo/releases/1
            releases :: a|2|2, b|1|9
            """#),
        Variant(
            [(#""owned": true"#, #""owned": true, "key": "payload.tags", "mapping": "release", "ordered": true"#)],
            #"""
            # a dictionary of records names its members by their keys
            {"Repo": {"name": "a", "payload": {"tags": {"1": {"size": 1}, "2": {"size": 2}}}}} => Release +2, Repo +1
            {"Repo": {"name": "a", "payload": {"tags": {"1": {"size": 1}, "2": {"size": 2}}}}} => Release =2, Repo =1
            skip {"Repo": {"name": "a", "payload": {"tags": {"3": {}, "1": {"size": "x"}, "9": 5, "2": {"size": 2}}}}}
              => Release +1 ~1 !2, Repo =1; invalidValue /Repo/payload/tags/1/size, invalidValue /Repo/payload/tags/9
            releases :: a|1|1, a|2|2, a|3|NULL
            skip {"Repo": {"name": "a", "payload": {"tags": {"1": 5, "2": null, "3": {}}}}}
              => Release =1 !2, Repo =1; invalidValue /Repo/payload/tags/1, invalidValue /Repo/payload/tags/2
            releases :: a|1|1, a|2|2, a|3|NULL
            {"Repo": {"name": "a", "payload": {"tags": {"2": {"size": 2}}}}} => Release ~1 -2, Repo =1
            {"Repo": {"name": "a", "payload": {"tags": {}}}} => Release -1, Repo =1
            """#),
        Variant(
            [(#""identity": "name", "#, ""), (#""identity": "tag", "#, "")],
            #"""
            # objects of an owner without identity are replaced by new ones
            {"Repo": {"name": "a", "releases": [{"tag": "1"}, {"tag": "2"}]}} => Release +2, Repo +1
            {"Repo": {"name": "a", "releases": [{"tag": "1"}, {"tag": "2"}]}} => Release +2, Repo +1
            {"entity": "Repo", "object": 1, "json": {"releases": [{"tag": "3"}]}} => Release +1 -2, Repo =1
            SELECT tag, repo FROM Release ORDER BY _pk :: 1|2, 2|2, 3|1
            {"op": "delete", "entity": "Repo", "objects": [2]} => Release -2, Repo -1
            {"entity": "Release", "json": {"tag": "4"}} => missingIdentity /0/json
            """#),
        Variant(
            [(#""identity": "name", "#, #""identity": "name", "modified": "at", "#)],
            #"""
            # a record that is not newer leaves what its object owns
            {"Repo": {"name": "a", "at": 5, "releases": [{"tag": "1"}, {"tag": "2"}]}} => Release +2, Repo +1
            {"Repo": {"name": "a", "at": 4, "releases": [{"tag": "9"}]}} => Repo =1
            {"Repo": [{"name": "a", "at": 7, "releases": []}, {"name": "a", "at": 6, "releases": [{"tag": "9"}]}]} => Release -2, Repo ~1
            """#),
        Variant(
            [
                (#""identity": "name", "#, #""identity": "name", "tombstone": "at = 0", "#),
                (#""identity": "tag", "#, #""identity": "tag", "tombstone": "size = 0", "#),
            ],
            #"""
            # a tombstone of the owner deletes what it owns, and one of an owned object deletes that
            {"Repo": \#(two)} => Release +2, Repo +1
            {"Repo": {"name": "a", "releases": [{"tag": "1", "size": 1}, {"tag": "2", "size": 0}]}} => Release =1 -1, Repo =1
            {"Repo": [{"name": "a", "at": 0}, {"name": "a", "releases": [{"tag": "7"}]}]} => Release +1 -1, Repo =1
            releases :: a|7|NULL
            {"Repo": {"name": "a", "at": 0, "releases": [{"tag": "8"}]}} => Release -1, Repo -1
            """#),
        Variant(
            [
                (#""size": "integer64""#, #""size": {"type": "integer64", "unique": true}"#),
                (#""identity": "tag", "#, ""),
            ],
            #"""
            # a value of an object that its owner does not name any more is free
            {"Repo": {"name": "a", "releases": [{"size": 1}, {"size": 2}]}} => Release +2, Repo +1
            {"Repo": {"name": "a", "releases": [{"size": 2}]}} => Release ~1 -1, Repo =1
            {"Repo": {"name": "a", "releases": [{"size": 2}, {"size": 3}]}} => Release +1 =1, Repo =1
            {"Repo": {"name": "a", "releases": [{"size": 3}, {"size": 2}]}} => Release ~2, Repo =1
            SELECT position, size FROM Release ORDER BY 1 :: 0|3, 1|2
            """#),
        Variant(
            [
                (
                    #""size": "integer64"}"#,
                    #""size": "integer64"}, "relationships": {"files": {"entity": "File", "toMany": true, "deleteRule": "deny"}}"#
                )
            ],
            #"""
            # an object that another one must keep is not deleted
            {"Repo": {"name": "a", "releases": [{"tag": "1", "files": [1]}, {"tag": "2"}]}} => File +1, Release +2, Repo +1
            {"Repo": {"name": "a", "releases": []}} => constraintViolation /Repo
            {"Repo": {"name": "a", "releases": [{"tag": "1"}]}} => Release =1 -1, Repo =1
            """#),
    ])
    func `owned objects beside other rules`(variant: Variant) throws {
        try variant.claim.check(TestStore(variant.model), ["releases": Self.releases])
    }

    @Test func `a record in one that a sync ignores has no holder, unless that one's object exists`() throws {
        let store = try TestStore(
            """
            {"entities": {
              "Order": {"identity": "id", "attributes": {"id": "integer64"},
                 "relationships": {"lines": {"entity": "Line", "toMany": true}}},
              "Line": {"identity": ["order", "place"], "attributes": {"order": {"type": "integer64", "key": "@parent.id"},
                 "place": {"type": "integer64", "key": "@parent.@index"}, "sku": "string"}}}}
            """)
        try store.run(#"{"entity": "Order", "json": [{"id": 1, "lines": {"sku": "a"}}, {"id": 2}]}"#)
        let sync =
            #"{"op": "sync", "entity": "Order", "json": [{"id": 1, "lines": {"sku": "b"}}, {"id": 9, "lines": {"sku": "c"}}]"#
        #expect(try store.run(sync + #", "actions": ["delete"]}"#) == "Line ~1, Order -1")
        #expect(try store.rows("SELECT * FROM Line") == ["1|0|b"])
    }

    @Test(.mergesSets) func `jobs of one batch have the effect of jobs one after the other`() throws {
        let store = try TestStore(Self.model())
        #expect(try !store.store.canJoin(store.job(#"{"Repo": \#(Self.two)}"#)))
        #expect(try store.store.canJoin(store.job(#"{"Repo": {"name": "d"}}"#)))
    }

    @Test func `the feed has the keys of deleted owned objects`() throws {
        let store = try TestStore(Self.model(), having: #"{"Repo": \#(Self.two)}"#)
        try store.apply(#"{"Repo": {"name": "a", "releases": [{"tag": "3"}]}}"#)
        let line = try store.rows("SELECT CAST(keys AS TEXT) FROM _broker_feed WHERE sequence = 2")
        let deleted = #"[{"parent_name":"a","tag":"1"},{"parent_name":"a","tag":"2"}]"#
        #expect(line == [#"2 {"Release":{"inserted":[{"parent_name":"a","tag":"3"}],"deleted":\#(deleted)}}"# + "\n"])
    }

    @Test func `a store does not begin to own objects`() throws {
        let store = try TestStore(Self.model([(#", "owned": true"#, "")]), having: #"{"Repo": \#(Self.two)}"#)
        let message = try store.refusal(Self.model())
        #expect(message?.contains("Repo.releases does not own its objects in the store") == true)
        #expect(message?.contains("Release is identified by tag in the store, and by parent_name, tag") == true)
    }

    @Test(.mergesSets, arguments: [false, true])
    func `objects that the last operation ends are only counted, in little memory`(isSync: Bool) throws {
        // An entry of the net changes for each would take five times as much.
        let store = try TestStore(Self.model()) { $0.mergeMemory = 512 << 10 }
        let tags = (0..<5_000).map { #"{"tag": "\#($0)"}"# }.joined(separator: ",")
        try store.apply(#"{"Repo": [{"name": "a", "releases": [\#(tags)]}, {"name": "b", "releases": {"tag": "x"}}]}"#)
        let operation =
            #"{"op": "\#(isSync ? "sync" : "process")", "entity": "Repo", "json": [{"name": "a", "releases": {"tag": "7"}}]}"#
        let outcome = try store.outcome(of: store.job(operations: operation, wantsKeys: false))
        #expect(outcome.summary == (isSync ? "Release =1 -5000, Repo =1 -1" : "Release =1 -4999, Repo =1"))
        #expect(try store.rows("SELECT tag FROM Release ORDER BY 1") == (isSync ? ["7"] : ["7", "x"]))
        #expect(try store.isSound())
    }
}
