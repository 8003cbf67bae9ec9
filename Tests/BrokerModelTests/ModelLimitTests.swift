import BrokerJSON
import Testing

@testable import BrokerModel

/// A model at each limit is read, and one beyond it is refused with what is too much, and nothing else.
@Suite(.timeLimit(.minutes(5))) struct ModelLimitTests {
    private func faults(_ text: String) -> [String] {
        do throws(ModelError) {
            _ = try ModelReader.read(JSONText(copying: Array(text.utf8)))
            return []
        } catch {
            return error.faults.map(\.description)
        }
    }

    private func entity(attributes count: Int, _ more: String = "") -> String {
        let attributes = (0..<count).map { "\"a\($0)\": \"string\"" }.joined(separator: ", ")
        return "{\"attributes\": {\(attributes)}\(more)}"
    }

    private func model(_ entities: some Sequence<(name: String, text: String)>) -> String {
        "{\"entities\": {" + entities.map { "\"\($0.name)\": \($0.text)" }.joined(separator: ", ") + "}}"
    }

    /// One fault that has these words, on a line that a screen can show.
    private func isRefused(_ text: String, _ words: String...) -> Bool {
        let faults = faults(text)
        return faults.count == 1 && faults[0].utf8.count < 400 && words.allSatisfy { faults[0].contains($0) }
    }

    @Test(arguments: [
        ("\"NAME\": {\"attributes\": {\"a\": \"string\"}}", "/entities/"),
        ("\"E\": {\"table\": \"NAME\", \"attributes\": {\"a\": \"string\"}}", "/entities/E/"),
        ("\"E\": {\"attributes\": {\"NAME\": \"string\"}}", "/entities/E/attributes/"),
        (
            "\"E\": {\"attributes\": {\"a\": \"string\"}, \"relationships\": {\"NAME\": {\"entity\": \"E\"}}}",
            "/entities/E/relationships/"
        ),
        ("\"E\": {\"attributes\": {\"a\": \"string\"}}}, \"mappings\": {\"NAME\": {\"entity\": \"E\"}", "/mappings/"),
    ])
    func `a name has at most 255 bytes`(entities: String, pointer: String) {
        func model(_ name: String) -> String {
            "{\"entities\": {\(entities.replacing("NAME", with: name))}}"
        }
        let name = String(repeating: "é", count: 127) + "e"
        #expect(faults(model(name)) == [])
        #expect(isRefused(model(name + "e"), "at most 255 bytes, and this one has 256", "(\(pointer)é"))
        #expect(isRefused(model(String(repeating: "x", count: 1 << 20)), "this one has 1048576"))
    }

    @Test func `an entity has at most 2,000 attributes and relationships, with its key in the table`() {
        // An entity without identity has a column of Broker's own, too.
        let identity = ", \"identity\": \"a0\""
        #expect(faults(model([("E", entity(attributes: 2_000, identity))])) == [])
        #expect(
            isRefused(
                model([("E", entity(attributes: 2_001, identity))]), "2001 attributes", "at most 2000", "(/entities/E)")
        )
        let relationships = ", \"relationships\": {\"r\": {\"entity\": \"E\", \"toMany\": true}}"
        #expect(
            isRefused(model([("E", entity(attributes: 2_000, identity + relationships))]), "2001 attributes and rel"))
    }

    @Test func `a model has at most 5,000 entities`() {
        let small = "{\"attributes\": {\"a\": \"string\"}}"
        #expect(faults(model((0..<5_000).map { ("E\($0)", small) })) == [])
        #expect(isRefused(model((0..<5_001).map { ("E\($0)", small) }), "5001 entities", "at most 5000", "(/entities)"))
    }

    @Test func `a model has at most 50,000 attributes and relationships in all`() {
        let large = entity(attributes: 1_000)
        let full = (0..<50).map { ("E\($0)", large) }
        #expect(faults(model(full)) == [])
        #expect(isRefused(model(full + [("F", entity(attributes: 1))]), "50001 attributes", "in all", "at most 50000"))
    }

    @Test func `a hierarchy has at most 250 entities`() {
        func hierarchy(_ count: Int, _ parent: (Int) -> Int) -> String {
            model(
                (0..<count).map { index in
                    (
                        "E\(index)",
                        entity(attributes: index == 0 ? 1 : 0, index == 0 ? "" : ", \"parent\": \"E\(parent(index))\"")
                    )
                })
        }
        for parent in [{ $0 - 1 }, { _ in 0 }, { $0 / 2 }] as [(Int) -> Int] {
            #expect(faults(hierarchy(250, parent)) == [])
            #expect(isRefused(hierarchy(251, parent), "251 entities in one hierarchy", "(/entities/E0)"))
        }
        // A circle is reported as such.
        let circle = model([
            ("A", entity(attributes: 1, ", \"parent\": \"B\"")), ("B", entity(attributes: 0, ", \"parent\": \"A\"")),
        ])
        #expect(faults(circle).contains { $0.contains("inherit from itself") })
    }

    @Test func `entities of hierarchies have at most 250,000 attributes and relationships with the inherited ones`() {
        func hierarchy(_ top: String, _ attributes: Int) -> [(name: String, text: String)] {
            (0..<250).map {
                ("\(top)\($0)", $0 == 0 ? entity(attributes: attributes) : "{\"parent\": \"\(top)0\"}")
            }
        }
        #expect(faults(model(hierarchy("A", 990))) == [])
        #expect(
            isRefused(
                model(hierarchy("A", 600) + hierarchy("B", 401)), "there are 250250 attributes", "at most 250000",
                "(/entities)"))
    }

    @Test func `an entity has at most 250 unique lists and indexes`() {
        func model(_ unique: Int, _ indexes: Int) -> String {
            func lists(_ count: Int, _ from: Int) -> String {
                (0..<count).map { "[\"a\(from + $0)\"]" }.joined(separator: ", ")
            }
            let more = ", \"unique\": [\(lists(unique, 0))], \"indexes\": [\(lists(indexes, unique))]"
            return self.model([("E", entity(attributes: 300, more))])
        }
        #expect(faults(model(100, 150)) == [])
        #expect(isRefused(model(101, 150), "251 unique lists and indexes", "at most 250"))
    }

    @Test func `a model has at most 10,000 mappings and routes`() {
        func model(_ mappings: Int, _ routes: Int) -> String {
            let mapping = (0..<mappings).map { "\"m\($0)\": {\"entity\": \"E\"}" }.joined(separator: ", ")
            let route = (0..<routes).map { "{\"keyPath\": \"k\($0)\", \"mapping\": \"m0\"}" }.joined(separator: ", ")
            return "{\"entities\": {\"E\": {\"attributes\": {\"a\": \"string\"}}}, \"mappings\": {\(mapping)}, "
                + "\"routes\": [\(route)]}"
        }
        #expect(faults(model(5_000, 5_000)) == [])
        #expect(isRefused(model(5_000, 5_001), "10001 mappings and routes", "at most 10000"))
    }

    @Test func `a model is nested at most 512 deep`() {
        func model(_ depth: Int) -> String {
            let value = String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
            return
                "{\"entities\": {\"E\": {\"attributes\": {\"a\": {\"type\": \"transformable\", \"default\": \(value)}}}}}"
        }
        // The five objects around it count.
        #expect(faults(model(507)) == [])
        #expect(isRefused(model(508), "the model is not JSON", "512"))
    }
}
