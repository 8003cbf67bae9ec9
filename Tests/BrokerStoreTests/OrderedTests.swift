import BrokerModel
import BrokerStaging
import Testing

@testable import BrokerStore

/// To-many relationships that keep the payload's order.
@Suite(.timeLimit(.minutes(5))) struct OrderedTests {
    /// - Parameter assignment: of all to-many relationships.
    private static func model(_ assignment: String = "union") -> String {
        let ordered = #""toMany": true, "ordered": true, "assignment": "\#(assignment)""#
        return """
            {"entities": {
              "Album": {"identity": "id", "attributes": {"id": "integer64", "name": "string"}, "relationships": {
                "songs": {"entity": "Song", "inverse": "album", \(ordered)},
                "fans": {"entity": "Fan", "inverse": "albums", \(ordered)},
                "tags": {"entity": "Tag", \(ordered)}}},
              "Song": {"identity": ["disc", "no"], "attributes": {"disc": "integer64", "no": "integer64",
                "title": {"type": "string", "optional": false}}, "relationships": {"album": {"entity": "Album"}}},
              "Fan": {"identity": "name", "identityOptional": true, "attributes": {"name": "string"}, "relationships": {
                "albums": {"entity": "Album", \(ordered)},
                "friends": {"entity": "Fan", "inverse": "friends", \(ordered)}}},
              "Tag": {"identity": "word", "attributes": {"word": "string", "size": "integer64"}}
            }}
            """
    }

    private let store: TestStore

    init() throws { store = try TestStore(Self.model()) }

    private func song(_ numbers: Int..., title: String? = "t") -> String {
        numbers.map { number in
            let name = title.map { ", \"title\": \"\($0)\"" } ?? ""
            return "{\"disc\": 1, \"no\": \(number)\(name)}"
        }.joined(separator: ", ")
    }

    private func songs(_ store: TestStore? = nil) throws -> [String] {
        try (store ?? self.store).rows("SELECT album, album_position, no FROM Song ORDER BY 1, 2, 3")
    }

    private func tags(_ store: TestStore? = nil) throws -> [String] {
        try (store ?? self.store).rows("SELECT source, position, destination FROM Album_tags ORDER BY 1, 2, 3")
    }

    /// The album's side, then the fan's.
    private func fans(_ store: TestStore? = nil) throws -> [[String]] {
        let names = "SELECT source, position, name, inverse_position FROM Album_fans JOIN Fan ON destination = _pk"
        return try ["1, 2", "3, 4"].map { try (store ?? self.store).rows("\(names) ORDER BY \($0)") }
    }

    // MARK: - One to many

    @Test func `children are in the order of the payload, new ones after existing ones`() throws {
        try store.apply("{\"Album\": {\"id\": 7, \"songs\": [\(song(3, 1, 2))]}}")
        #expect(try songs() == ["7|0|3", "7|1|1", "7|2|2"])
        #expect(
            try store.changes("{\"Album\": {\"id\": 7, \"songs\": [\(song(5, 2, 4))]}}")
                == ["Album +0 ~0 =1 !0", "Song +2 ~0 =1 !0"])
        #expect(try songs() == ["7|0|3", "7|1|1", "7|2|2", "7|3|5", "7|4|4"])
        #expect(
            try store.changes("{\"Album\": {\"id\": 7, \"songs\": [\(song(5, 2, 4))]}}")
                == ["Album +0 ~0 =1 !0", "Song +0 ~0 =3 !0"])
    }

    @Test func `a child that names its parent is appended, in the order of the text`() throws {
        let payload = """
            {"Song": [{"disc": 1, "no": 9, "title": "t", "album": 7}, {"disc": 1, "no": 8, "title": "t", "album": 7}],
             "Album": {"id": 7, "songs": [\(song(1, 9))]}}
            """
        try store.apply(payload)
        #expect(try songs() == ["7|0|9", "7|1|8", "7|2|1"])
        #expect(try store.changes(payload) == ["Album +0 ~0 =1 !0", "Song +0 ~0 =3 !0"])
    }

    @Test func `an object that leaves a list makes a gap, and has no position, or the last one elsewhere`() throws {
        try store.apply(
            "{\"Album\": [{\"id\": 7, \"songs\": [\(song(1, 2, 3))]}, {\"id\": 8, \"songs\": [\(song(4))]}]}")
        // One goes over as a child (without its required title), one is ended by null.
        #expect(
            try store.changes(#"{"Song": [{"disc": 1, "no": 1, "album": 8}, {"disc": 1, "no": 2, "album": null}]}"#)
                == ["Album +0 ~0 =1 !0", "Song +0 ~2 =0 !0"])
        #expect(try songs() == ["NULL|NULL|2", "7|2|3", "8|0|4", "8|1|1"])
        try store.apply("{\"Album\": {\"id\": 7, \"songs\": [\(song(1, 2))]}}")
        #expect(try songs() == ["7|2|3", "7|3|1", "7|4|2", "8|0|4"])
    }

    @Test func `replacing numbers the payload from 0, and a child that moved has changed`() throws {
        let store = try TestStore(Self.model("replace"))
        try store.apply("{\"Album\": {\"id\": 7, \"songs\": [\(song(1, 2, 3))]}}")
        #expect(
            try store.changes("{\"Album\": {\"id\": 7, \"songs\": [\(song(2, 1, 3))]}}")
                == ["Album +0 ~0 =1 !0", "Song +0 ~2 =1 !0"])
        #expect(try songs(store) == ["7|0|2", "7|1|1", "7|2|3"])
        let keys = try #require(try store.keys("{\"Album\": {\"id\": 7, \"songs\": [\(song(4, 3, title: "t"))]}}"))
        #expect(keys.contains(#""Song":{"inserted":[{"disc":1,"no":4}]"#))
        for number in 1...3 { #expect(keys.contains(#"{"disc":1,"no":\#(number)}"#)) }
        #expect(try songs(store) == ["NULL|NULL|1", "NULL|NULL|2", "7|0|4", "7|1|3"])
        #expect(
            try store.changes("{\"Album\": {\"id\": 7, \"songs\": [\(song(4, 3))]}}")
                == ["Album +0 ~0 =1 !0", "Song +0 ~0 =2 !0"])
    }

    @Test func `the assertions of one job about a child's position apply one after the other`() throws {
        try store.apply(
            """
            {"Album": [{"id": 7, "songs": [\(song(1, 2))]}, {"id": 8, "songs": [\(song(1))]}],
             "Song": {"disc": 1, "no": 2, "album": null}, "Album": {"id": 7, "songs": [\(song(3, 1, 2))]}}
            """)
        #expect(try songs() == ["7|0|3", "7|1|1", "7|2|2"])
        try store.apply(
            "{\"Album\": [{\"id\": 7, \"songs\": [\(song(9))]}, {\"id\": 7, \"songs\": null}, {\"id\": 7, \"songs\": [\(song(2, 9))]}]}"
        )
        #expect(try songs() == ["NULL|NULL|1", "NULL|NULL|3", "7|0|2", "7|1|9"])
    }

    // MARK: - Link tables

    @Test func `links without an inverse keep the order of their source`() throws {
        try store.apply(#"{"Album": {"id": 7, "tags": ["c", "a", "c", "b"]}}"#)
        #expect(try tags() == ["7|0|c", "7|1|a", "7|2|b"])
        #expect(
            try store.changes(#"{"Album": {"id": 7, "tags": ["d", "b"]}}"#) == ["Album +0 ~1 =0 !0", "Tag +1 ~0 =1 !0"])
        #expect(try tags() == ["7|0|c", "7|1|a", "7|2|b", "7|3|d"])
        #expect(
            try store.changes(#"{"Album": {"id": 7, "tags": ["d", "b"]}}"#) == ["Album +0 ~0 =1 !0", "Tag +0 ~0 =2 !0"])
        try store.apply(#"{"Album": [{"id": 7, "tags": null}, {"id": 7, "tags": ["b", "d"]}]}"#)
        #expect(try tags() == ["7|0|b", "7|1|d"])
    }

    @Test func `replacing numbers links from 0, and a new order changes the object that names it`() throws {
        let store = try TestStore(Self.model("replace"))
        try store.apply(#"{"Album": {"id": 7, "tags": ["a", "b", "c"]}}"#)
        #expect(
            try store.changes(#"{"Album": {"id": 7, "tags": ["c", "a", "b"]}}"#)
                == ["Album +0 ~1 =0 !0", "Tag +0 ~0 =3 !0"])
        #expect(try tags(store) == ["7|0|c", "7|1|a", "7|2|b"])
        #expect(
            try store.changes(#"{"Album": {"id": 7, "tags": ["c", "a", "b"]}}"#)
                == ["Album +0 ~0 =1 !0", "Tag +0 ~0 =3 !0"])
        try store.apply(#"{"Album": {"id": 7, "tags": ["b", "d"]}}"#)
        #expect(try tags(store) == ["7|0|b", "7|1|d"])
        try store.apply(#"{"Album": [{"id": 7, "tags": ["x", "b"]}, {"id": 7, "tags": ["y", "x"]}]}"#)
        #expect(try tags(store) == ["7|0|y", "7|1|x"], "each set replaces")
    }

    @Test func `a rejected element retains its position, and no other object gets it`() throws {
        let store = try TestStore(Self.model("replace"))
        try store.apply(#"{"Album": {"id": 7, "tags": ["b", "a", "c", "d"]}}"#)
        let payload =
            #"{"Album": {"id": 7, "tags": ["c", {"word": "b", "size": "x"}, "a", {"word": "e", "size": "x"}]}}"#
        #expect(try store.changes(payload, .skip) == ["Album +0 ~1 =0 !0", "Tag +0 ~0 =2 !2"])
        #expect(try tags(store) == ["7|0|b", "7|1|c", "7|2|a"])
        #expect(try store.changes(payload, .skip) == ["Album +0 ~0 =1 !0", "Tag +0 ~0 =2 !2"])
    }

    @Test func `both sides of a many-to-many keep their own order`() throws {
        try store.apply(#"{"Album": [{"id": 7, "fans": ["z", "a"]}, {"id": 8, "fans": ["a", "z"]}]}"#)
        #expect(
            try fans() == [
                ["7|0|z|0", "7|1|a|0", "8|0|a|1", "8|1|z|1"], ["7|1|a|0", "8|0|a|1", "7|0|z|0", "8|1|z|1"],
            ])
        #expect(
            try store.changes(#"{"Fan": {"name": "m", "albums": [8, 9, 7]}}"#) == [
                "Album +1 ~0 =2 !0", "Fan +1 ~0 =0 !0",
            ])
        #expect(
            try fans()[0]
                == ["7|0|z|0", "7|1|a|0", "7|2|m|2", "8|0|a|1", "8|1|z|1", "8|2|m|0", "9|0|m|1"])
        let again = try store.changes(
            #"{"Fan": {"name": "m", "albums": [7, 8, 9]}, "Album": {"id": 7, "fans": ["m", "a"]}}"#)
        #expect(again == ["Album +0 ~0 =3 !0", "Fan +0 ~0 =2 !0"])
        #expect(try store.isSound())
    }

    @Test func `replacing one side of a many-to-many leaves the other side's order alone`() throws {
        let store = try TestStore(Self.model("replace"))
        try store.apply(#"{"Album": [{"id": 7, "fans": ["z", "a"]}, {"id": 8, "fans": ["a", "z"]}]}"#)
        #expect(
            try store.changes(#"{"Fan": {"name": "z", "albums": [8, 9, 7]}}"#) == [
                "Album +1 ~0 =2 !0", "Fan +0 ~1 =0 !0",
            ])
        #expect(try fans(store)[0] == ["7|0|z|2", "7|1|a|0", "8|0|a|1", "8|1|z|0", "9|0|z|1"])
        #expect(
            try store.changes(#"{"Fan": {"name": "z", "albums": [8, 9, 7]}}"#) == [
                "Album +0 ~0 =3 !0", "Fan +0 ~0 =1 !0",
            ])
        try store.apply(#"{"Fan": {"name": "z", "albums": []}}"#)
        #expect(try fans(store)[0] == ["7|1|a|0", "8|0|a|1"], "a gap stays")
    }

    @Test func `links that the other side cleared have lost their place`() throws {
        try store.apply(
            #"{"Fan": [{"name": "z", "albums": [7, 8]}], "Album": [{"id": 7, "fans": null}], "Fan": {"name": "z", "albums": [9, 7]}}"#
        )
        #expect(try fans()[1] == ["8|0|z|1", "9|0|z|2", "7|0|z|3"])
    }

    @Test func `a symmetric relationship has an order in each direction`() throws {
        let friends =
            "SELECT a.name, position, b.name FROM Fan_friends JOIN Fan a ON source = a._pk "
            + "JOIN Fan b ON destination = b._pk ORDER BY 1, 2"
        let payload = #"{"Fan": [{"name": "a", "friends": ["c", "b", "a"]}, {"name": "d", "friends": ["b", "a"]}]}"#
        try store.apply(payload)
        #expect(
            try store.rows(friends)
                == ["a|0|c", "a|1|b", "a|2|a", "a|3|d", "b|0|a", "b|1|d", "c|0|a", "d|0|b", "d|1|a"])
        #expect(try store.changes(payload) == ["Fan +0 ~0 =4 !0"])
        #expect(try store.rows("SELECT count(*) FROM pragma_table_info('Fan_friends')") == ["3"])
    }

    @Test func `objects without identity are in the order of the payload`() throws {
        try store.apply(#"{"Album": {"id": 7, "fans": [{}, {"name": "x"}, {}]}}"#)
        #expect(try store.rows("SELECT position, destination FROM Album_fans ORDER BY 1") == ["0|1", "1|2", "2|3"])
    }

    // MARK: - The tables

    @Test func `an index serves each order`() throws {
        #expect(
            try store.rows("SELECT name FROM pragma_table_info('Album_fans')") == [
                "source", "destination", "position", "inverse_position",
            ])
        for (query, index) in [
            ("SELECT no FROM Song WHERE album = 7 ORDER BY album_position", "Song.album.album_position"),
            ("SELECT destination FROM Album_fans WHERE source = 7 ORDER BY position", "Album_fans.source.position"),
            (
                "SELECT source FROM Album_fans WHERE destination = 7 ORDER BY inverse_position",
                "Album_fans.destination.inverse_position"
            ),
        ] {
            let plan = try store.rows("EXPLAIN QUERY PLAN \(query)")
            #expect(plan.count == 1 && plan[0].contains("INDEX \(index) "), "\(plan)")
        }
    }

    @Test func `a relationship that is ordered now, or no more, is refused`() throws {
        for (old, new) in [(Self.model(), false), (Self.model().replacing(#""ordered": true, "#, with: ""), true)] {
            let store = try TestStore(old)
            try store.apply(#"{"Album": {"id": 7, "songs": [{"disc": 1, "no": 1, "title": "t"}]}}"#)
            let other = new ? Self.model() : old.replacing(#""ordered": true, "#, with: "")
            #expect { try store.reopen(other) } throws: { error in
                let text =
                    "Album.songs is \(new ? "not ordered" : "ordered") in the store, and \(new ? "ordered" : "not ordered") in the model"
                return "\(error)".contains(text)
            }
        }
    }
}
